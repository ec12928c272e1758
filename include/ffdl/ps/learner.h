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

// Rows of one table of parameters, with row_size values for each row.
template <class Float>
struct TableRows {
  uint64_t table = 0;                // first parameter of the table
  uint64_t row_size = 0;             // floats per row
  std::span<const uint64_t> rows{};  // row numbers, in any order, in the host's memory
  std::span<Float> values{};         // rows.size() x row_size, row-major
};
using RowGradient = TableRows<const float>;  // values of repeated rows are added up
using RowWeights = TableRows<float>;         // receives the weights

// The gradient of parameters [begin, begin + values.size()): a dense layer in a sparse gradient.
struct PartGradient {
  uint64_t begin = 0;
  std::span<const float> values{};
};

// The gradient of one mini-batch, the argument of each push. A span or vector of float converts
// implicitly to a dense gradient: push(values, samples).
// Owns: nothing; a push reads the caller's arrays.
class Gradient {
 public:
  enum class Form : uint8_t { kSlot, kDense, kSparse };

  // Returns the gradient that the caller wrote to gradient_slot(). The shared slot is not copied.
  static Gradient slot() { return {}; }
  // Returns a dense gradient with one 16-bit number for each parameter. `type` is kBFloat16 or
  // kFloat16, and `values` has the bits.
  static Gradient dense(DType type, std::span<const uint16_t> values) {
    return {type, values.data(), values.size()};
  }
  // Returns a gradient of few parameters. Only these are copied, published and updated. The update
  // rule leaves weight and state of all other parameters unchanged, as torch.optim.SparseAdam does.
  // In a dense gradient, momentum also moves parameters whose gradient is 0. Rows and parts must
  // not overlap each other. The server must have been created with rows_max.
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
  // The CUDA number of the GPU whose memory start_push() and start_pull() use; -1: the GPU of the
  // thread that attaches. No value: the two use the host's memory.
  std::optional<int> device{};
};

enum class PushResult : uint8_t {
  kPublished,    // committed: the server will fold it, whichever process dies
  kAccumulated,  // late server: added up here, published by a later gradient_slot, push or flush
  kSkipped,      // NaN or Inf: dropped, its samples counted as skipped (NonFinite::kSkip)
};

// The samples of one publication, committed together with their gradient.
struct Publication {
  int slot = 0;
  uint64_t sequence = 0;  // number in this slot, across all its learners; from 1
  std::vector<SampleRange> samples{};
};

// Counters of this Learner object since attach().
struct LearnerStats {
  uint64_t mini_batches = 0;
  uint64_t published = 0;    // gradients; each contains one mini-batch or several
  uint64_t accumulated = 0;  // mini-batches that were added to another one
  uint64_t skipped = 0;
  uint64_t waits = 0;  // mini-batches that waited, with kStale or kBulk
};

// One learner of a parameter server: it pulls weights and pushes gradients. The loop:
//   while (...) {
//     auto slot = learner->gradient_slot(deadline);     // the buffer for the gradient
//     learner->pull(weights);
//     compute(weights, samples, *slot);                 // overwrites the slot
//     learner->push(Gradient::slot(), samples);         // commits gradient and samples
//   }
// Threads: one thread at a time; start_pull() and start_push() run on threads of the Learner. After
//          fork() the child's copy returns kCancelled: attach in the child.
// Owns: its slot, until detach() or the destructor. The destructor drops unpublished gradients, and
//       their samples stay uncommitted. With a device also two streams, a mapping of the segment
//       with pinned weights, and pinned memory for one gradient and one pull of rows.
// Blocks: attach, rest_until, flush, detach, finish_push and finish_pull until their deadline; with
//         Synchrony::kStale and kBulk also gradient_slot and begin_mini_batch. push and a relaxed
//         pull never wait for another process. let_go and tell_publications wait for a
//         start_push() in progress, and the destructor waits for all transfers.
// Errors: kTimeout, kExhausted (no free slot; too many sample ranges or rows for one gradient),
//         kConflict (the fixed slot is in use), kInvalidArgument, kCorrupt, kCancelled (the server
//         or this process's launcher has ended, or this learner is detached or a forked copy);
//         attach() with a device also kUnimplemented (no GPU, no driver, or a build without CUDA).
class FFDL_API Learner {
 public:
  // Waits until the server's name exists and a slot is free. A dead learner's slot is free.
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
  // Returns why the memory for a device could not be pinned, or an empty string. Transfers without
  // pinning are slower. The log reports the reason once.
  const std::string& not_pinned() const;

  // Returns the first uncommitted position of a partition. The next learner of the partition
  // continues there. The value is final once no other learner pushes samples of the partition.
  uint64_t committed(uint32_t partition) const;
  // Returns the next position to push: after all samples that this learner pushed, and all that any
  // learner committed.
  Result<uint64_t> pushed(uint32_t partition) const;
  // Returns how many separate ranges the next push may have: ranges_max minus those accumulated.
  Result<uint64_t> ranges_left() const;

  // Locks a partition for this learner. make_push_ledger() (sample_ledger.h) requires the lock,
  // push() does not. The kernel releases the lock when the learner ends, even by a kill. hold()
  // tries once. It returns false if another learner holds the partition, or has published samples
  // of it that are not folded yet. After let_go() others can hold the partition once all pushes of
  // this learner on it are folded. let_go() waits for a start_push() in progress.
  Result<bool> hold(uint32_t partition);
  Status let_go(uint32_t partition);
  // Returns true if no learner holds the partition, not even this one, and hold() can succeed.
  bool is_free(uint32_t partition) const;

  // Returns the newest publication of each slot, also if its learner was killed. Sequences restart
  // in a new segment.
  std::vector<Publication> publications() const;
  // Sets the function that is called after each publication of this learner, on the thread that
  // publishes. `told` must not call the learner. Waits for a start_push() in progress.
  void tell_publications(std::function<void(const Publication&)> told);

  // Waits until `ready` returns true, and publishes the accumulated gradients meanwhile. This
  // thread calls `ready` after a fold, when a learner ends or a partition becomes free, and some
  // times each second. `ready` may call hold() and let_go(). Meanwhile other learners and rounds do
  // not wait for this learner.
  Status rest_until(const std::function<bool()>& ready, Time deadline);

  // Waits while this learner is too far ahead of the others. With kAsync it returns at once.
  Status begin_mini_batch(Time deadline);

  // Calls begin_mini_batch() and returns a buffer of parameters() floats for the gradient. The
  // caller must overwrite all of them. The buffer is the shared slot, or private memory if the
  // server is late or gradients have 16 bits.
  Result<std::span<float>> gradient_slot(Time deadline);

  // Commits a gradient together with its samples. `samples` is one range, or several separate
  // ranges in the order of their use. The gradient must be in the host's memory. A dense float32
  // gradient is copied once. 16-bit numbers are converted to float32, then to gradient_type().
  // Returns kInvalidArgument and changes nothing if there are no samples.
  Result<PushResult> push(const Gradient& gradient, std::span<const SampleRange> samples);
  Result<PushResult> push(const Gradient& gradient, const SampleRange& samples) {
    return push(gradient, std::span<const SampleRange>(&samples, 1));
  }

  // Copies the weights into the host's memory and returns their version.
  Result<uint64_t> pull(std::span<float> weights, PullMode mode = PullMode::kRelaxed);
  // Copies rows of tables into the host's memory in the mode kRelaxed. Returns the version before
  // the copy.
  Result<uint64_t> pull_rows(std::span<const RowWeights> tables);
  Result<uint64_t> pull_rows(const RowWeights& table) {
    return pull_rows(std::span<const RowWeights>(&table, 1));
  }
  // Returns the shared weights without a copy. The server changes them at any time.
  std::span<const float> live_weights() const;

  // Push and pull during computation, on threads of this Learner (GaDei, arXiv 1611.06213). At most
  // one push and one pull run at a time. The loop has two arrays of weights and two of gradients:
  //   learner->start_pull(weights[0]);
  //   for (int i = 0; ...; ++i) {
  //     learner->finish_pull(deadline);                      // weights[i % 2] is complete
  //     learner->start_pull(weights[(i + 1) % 2]);
  //     compute(weights[i % 2], samples, gradients[i % 2]);
  //     if (i > 0) learner->finish_push(deadline);           // the last gradient was copied
  //     learner->start_push(gradients[i % 2], samples);
  //   }
  // The values of the gradient must not change until finish_push() has returned. The weights must
  // not be used until finish_pull() has returned. The arrays must outlive these calls, or this
  // object. Row numbers and samples are copied before start_... returns. With Synchrony::kStale and
  // kBulk call finish_push(), then begin_mini_batch() before the next compute().
  //
  // With LearnerOptions::device all values and weights must be in the memory of that GPU, except
  // Gradient::slot(). The GPU copies them after the earlier work of `stream`, a cudaStream_t of the
  // caller; null is the default stream. When finish_pull() returns, all streams may use the
  // weights. A sparse gradient has at most parameters() values: add up repeated rows on the GPU. If
  // the process dies before a gradient is copied, the gradient is not pushed.
  //
  // Errors of start_...: kInvalidArgument also for host memory with a device, and for a stream
  // without a device. Errors of finish_...: kTimeout (not finished yet), kInvalidArgument (none was
  // started), those of push() and pull(), those of the GPU (nothing of that push is committed).
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

  // Publishes the accumulated gradients. Waits until all gradients of this learner are folded.
  Status flush(Time deadline);
  // Flushes, then releases the slot.
  Status detach(Time deadline);

  // Returns the counters. Must not be called during a start_push().
  LearnerStats stats() const;

  class Impl;

 private:
  friend class AveragingLearner;
  explicit Learner(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
