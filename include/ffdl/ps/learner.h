#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/ps/parameter_server.h"

// The learners of a parameter server, and the gradients that they push.
namespace ffdl {

// Rows of one table of parameters, and a value for each of their floats.
template <class Float>
struct TableRows {
  uint64_t table = 0;                // first parameter of the table
  uint64_t row_size = 0;             // floats per row
  std::span<const uint64_t> rows{};  // their numbers, in any order, in the host's memory
  std::span<Float> values{};         // rows.size() x row_size, row-major
};
using RowGradient = TableRows<const float>;  // repeated rows are added up
using RowWeights = TableRows<float>;         // receives the weights

// The gradient of the parameters [begin, begin + values.size()), for layers that are not sparse.
struct PartGradient {
  uint64_t begin = 0;
  std::span<const float> values{};
};

// The gradient of one mini-batch, as every push takes it. A span or vector of float converts to a
// dense gradient by itself: push(values, samples).
// Owns: nothing; the push reads the arrays.
class Gradient {
 public:
  enum class Form : uint8_t { kSlot, kDense, kSparse };

  // Returns the gradient in gradient_slot(), which is not copied.
  static Gradient slot() { return {}; }
  // Returns a dense gradient: one 16-bit number for each parameter, the bits of `type`, which is
  // kBFloat16 or kFloat16.
  static Gradient dense(DType type, std::span<const uint16_t> values) {
    return {type, values.data(), values.size()};
  }
  // Returns a gradient of few parameters: only those are copied, published and updated. An update
  // rule leaves weight and state of all others unchanged. A zero in a dense gradient would still
  // let momentum move them (as in torch.optim.SparseAdam, not Adam). Rows and parts must not
  // overlap each other. The server must have been created with rows_max.
  static Gradient sparse(std::span<const RowGradient> tables,
                         std::span<const PartGradient> parts = {}) {
    Gradient gradient;
    gradient.form_ = Form::kSparse;
    gradient.tables_ = tables;
    gradient.parts_ = parts;
    return gradient;
  }
  // A dense gradient: one float for each parameter.
  template <class Values>
    requires std::convertible_to<const Values&, std::span<const float>>
  Gradient(const Values& values) : Gradient(std::span<const float>(values), Form::kDense) {}

  Form form() const { return form_; }
  // Return the type, the address and the number of the elements of a dense gradient.
  DType type() const { return type_; }
  const void* values() const { return values_; }
  uint64_t count() const { return count_; }
  // Return the lists of a sparse gradient.
  std::span<const RowGradient> tables() const { return tables_; }
  std::span<const PartGradient> parts() const { return parts_; }

 private:
  Gradient() = default;
  Gradient(DType type, const void* values, uint64_t count)
      : form_(Form::kDense), type_(type), values_(values), count_(count) {}
  Gradient(std::span<const float> values, Form form)
      : form_(form), values_(values.data()), count_(values.size()) {}

  Form form_ = Form::kSlot;
  DType type_ = DType::kFloat32;
  const void* values_ = nullptr;
  uint64_t count_ = 0;
  std::span<const RowGradient> tables_{};
  std::span<const PartGradient> parts_{};
};

inline constexpr int kAnySlot = -1;

struct LearnerOptions {
  int slot = kAnySlot;  // a fixed slot lets a new process continue where an old one ended
  // The GPU, by its CUDA number, whose memory start_push() and start_pull() use; -1: the one that
  // the attaching thread uses. No value: they use the host's memory.
  std::optional<int> device{};
};

enum class PushResult : uint8_t {
  kPublished,    // committed: the server will fold it, whichever process dies
  kAccumulated,  // the server is late: added up locally, published by a later push, pull or flush
  kSkipped,      // NaN or Inf: dropped, its samples counted as skipped (NonFinite::kSkip)
};

// Samples that one store committed, with their gradient.
struct Publication {
  int slot = 0;
  uint64_t sequence = 0;  // of this slot, across all its learners; from 1
  std::vector<SampleRange> samples{};
};

// Counters of this Learner object since attach().
struct LearnerStats {
  uint64_t mini_batches = 0;
  uint64_t published = 0;    // gradients; each carries one mini-batch or several
  uint64_t accumulated = 0;  // mini-batches that were added to another one
  uint64_t skipped = 0;
  uint64_t waits = 0;  // for the staleness bound
};

// One learner of a parameter server: it pulls weights and pushes gradients. The loop:
//   while (...) {
//     auto slot = learner->gradient_slot(deadline);     // the buffer for the gradient
//     learner->pull(weights);
//     compute(weights, samples, *slot);                 // overwrites the slot
//     learner->push(Gradient::slot(), samples);         // commits gradient and samples
//   }
// Threads: one thread at a time; start_pull/start_push use threads of the Learner's own. An object
//          inherited by fork() refuses to work: attach in the child.
// Owns: its slot, until detach() or the destructor. Gradients not published by then are dropped,
//       and their samples stay uncommitted. With a device also its own mapping of the segment,
//       which it pins, two streams, and pinned memory for one gradient and the rows of one pull.
// Blocks: gradient_slot and begin_mini_batch with Synchrony::kStale and kBulk, rest_until, flush,
//         detach, finish_push, finish_pull; each takes a deadline. push and a relaxed pull never
//         wait for another process. let_go and tell_publications wait for a start_push() in
//         progress, the destructor for all transfers.
// Errors: kTimeout, kExhausted (no free slot; more sample ranges than a gradient can name),
//         kInvalidArgument, kCorrupt, kCancelled (the server ended, or this is a forked child);
//         attach() with a device also kUnimplemented (no GPU, no driver, or a build without CUDA).
class FFDL_API Learner {
 public:
  // Waits for the server's name to appear, and for a slot whose last owner is gone.
  static Result<std::unique_ptr<Learner>> attach(std::string_view name, Time deadline,
                                                 LearnerOptions options = {});
  // Attaches a thread of the server's process; required for an anonymous segment.
  static Result<std::unique_ptr<Learner>> attach(const ParameterServer& server, Time deadline,
                                                 LearnerOptions options = {});
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  int slot() const;
  uint64_t parameters() const;
  uint32_t partitions() const;
  DType gradient_type() const;  // of the server's slots
  // Returns why the memory for a device could not be pinned, or an empty string. Without pinning
  // the transfers work, but slower; the log reports it once.
  const std::string& not_pinned() const;

  // Returns the first uncommitted position of a partition, from which the next learner of the
  // partition continues. Final once no other learner pushes samples of it.
  uint64_t committed(uint32_t partition) const;
  // Returns the next position to push: after everything that this learner pushed and any learner
  // committed.
  Result<uint64_t> pushed(uint32_t partition) const;
  // Returns the number of separate ranges for the next push: ranges_max, less those accumulated.
  Result<uint64_t> ranges_left() const;

  // Holds a partition, as make_push_ledger() (sample_ledger.h) requires; push() does not. The hold
  // is a lock of the kernel, which ends with this learner however it ends. hold() tries once. It
  // returns false if another learner holds the partition, or one's published gradient of it is not
  // folded yet. After let_go() others may hold it as soon as all pushes of this learner on it are
  // folded. let_go() waits for a start_push() in progress.
  Result<bool> hold(uint32_t partition);
  Status let_go(uint32_t partition);
  bool is_free(uint32_t partition) const;  // no learner holds it, not even this one

  // Returns the newest publication of each slot, of any owner: a killed learner may not have
  // reported its last one. Sequences restart in a new segment.
  std::vector<Publication> publications() const;
  // Calls `told` from now on after each publication of this learner, on the thread that makes it.
  // It must not call the learner. Waits for a start_push() in progress.
  void tell_publications(std::function<void(const Publication&)> told);

  // Publishes the accumulated gradients and waits until `ready` returns true. This thread calls it
  // after a fold, when a learner has gone or a partition is free, and some times each second. It
  // may hold partitions and let them go. Meanwhile this learner takes no part in bounds and rounds:
  // others do not wait for it.
  Status rest_until(const std::function<bool()>& ready, Time deadline);

  // Waits while this learner is too far ahead of the others; returns at once with kAsync.
  Status begin_mini_batch(Time deadline);

  // Calls begin_mini_batch() and returns the buffer for the gradient: parameters() floats, which
  // the caller overwrites completely. It is the shared slot, or private memory while the server is
  // late or if gradients have 16 bits.
  Result<std::span<float>> gradient_slot(Time deadline);

  // Commits a gradient together with its samples: one range, or several separate ones in the order
  // in which they were used. The gradient is in the host's memory. A dense one of float32 is copied
  // once. 16-bit numbers are fastest in the server's own gradient_type; other types are converted.
  // A push without samples is refused: kInvalidArgument, and nothing has changed.
  Result<PushResult> push(const Gradient& gradient, std::span<const SampleRange> samples);
  Result<PushResult> push(const Gradient& gradient, const SampleRange& samples) {
    return push(gradient, std::span<const SampleRange>(&samples, 1));
  }

  // Copies the weights into the host's memory and returns their version.
  Result<uint64_t> pull(std::span<float> weights, PullMode mode = PullMode::kRelaxed);
  // Copies rows of tables into the host's memory, in the mode kRelaxed.
  Result<uint64_t> pull_rows(std::span<const RowWeights> tables);
  Result<uint64_t> pull_rows(const RowWeights& table) {
    return pull_rows(std::span<const RowWeights>(&table, 1));
  }
  // Returns the weights themselves, as they change: no copy, no consistency.
  std::span<const float> live_weights() const;

  // Push and pull beside computation, on threads of this Learner (GaDei, arXiv 1611.06213): at most
  // one push and one pull at a time. The loop, with two arrays of weights and two of gradients:
  //   learner->start_pull(weights[0]);
  //   for (int i = 0; ...; ++i) {
  //     learner->finish_pull(deadline);                      // weights[i % 2] is there
  //     learner->start_pull(weights[(i + 1) % 2]);
  //     compute(weights[i % 2], samples, gradients[i % 2]);
  //     if (i > 0) learner->finish_push(deadline);           // the last gradient is copied
  //     learner->start_push(gradients[i % 2], samples);
  //   }
  // The values of the gradient must not change until finish_push() has returned, and the weights
  // must not be used until finish_pull() has. Both must outlive that call, or this object. Row
  // numbers and samples are read before start_... returns. With Synchrony::kStale and kBulk call
  // finish_push(), then begin_mini_batch() before the next compute().
  //
  // With LearnerOptions::device all values and weights are in the memory of that GPU; only
  // Gradient::slot() is not. Its copy engines move them after the earlier work of `stream`, a
  // cudaStream_t of the caller; null is the default stream. finish_pull() returns when the weights
  // are there for all streams. A sparse gradient has at most parameters() values: add up repeated
  // rows on the GPU. Until the copy of a gradient has ended, a death pushes nothing.
  //
  // Errors of start_...: kInvalidArgument also for memory of the wrong side, and for a stream
  // without a device. Errors of finish_...: kTimeout (not finished yet), kInvalidArgument (none was
  // started), those of push() and pull(), those of the GPU: nothing of that push was committed.
  Status start_push(const Gradient& gradient, std::span<const SampleRange> samples,
                    void* stream = nullptr);
  Status start_push(const Gradient& gradient, const SampleRange& samples, void* stream = nullptr) {
    return start_push(gradient, std::span<const SampleRange>(&samples, 1), stream);
  }
  Result<PushResult> finish_push(Time deadline);
  Status start_pull(std::span<float> weights, PullMode mode = PullMode::kRelaxed,
                    void* stream = nullptr);
  Status start_pull_rows(std::span<const RowWeights> tables, void* stream = nullptr);
  Result<uint64_t> finish_pull(Time deadline);  // returns the version

  // Publishes the accumulated gradients and waits until the server has folded all of them.
  Status flush(Time deadline);
  // Flushes, then releases the slot.
  Status detach(Time deadline);

  // Returns the counters. Not during a start_push().
  LearnerStats stats() const;

  class Impl;

 private:
  friend class AveragingLearner;
  explicit Learner(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
