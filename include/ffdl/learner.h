#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ffdl/parameter_server.h"
#include "ffdl/sparse_gradient.h"

namespace ffdl {

inline constexpr int kAnySlot = -1;

struct LearnerOptions {
  int slot = kAnySlot;  // a fixed one: a new process goes on where an old one ended
};

enum class PushResult : uint8_t {
  kPublished,    // committed: the server will fold it, whatever dies
  kAccumulated,  // the server is late; added up locally, published with a later push, pull or flush
  kSkipped,      // NaN or Inf: dropped, its samples counted as skipped (NonFinite::kSkip)
};

// Samples that one store committed, with their gradient.
struct Publication {
  int slot = 0;
  uint64_t sequence = 0;  // of this slot, across all its learners; from 1
  std::vector<SampleRange> samples{};
};

// What this Learner object did since attach().
struct LearnerStats {
  uint64_t mini_batches = 0;
  uint64_t published = 0;    // gradients; each carries one mini-batch or several
  uint64_t accumulated = 0;  // mini-batches that were added to another one
  uint64_t skipped = 0;
  uint64_t waits = 0;  // times it waited for the staleness bound
};

// One learner of a parameter server: takes weights, gives gradients. The loop:
//   while (...) {
//     auto slot = learner->gradient_slot(deadline);     // where the gradient goes
//     learner->pull(weights);
//     compute(weights, samples, *slot);                 // overwrites the slot
//     learner->push(samples);                           // commits gradient and samples
//   }
// Threads: one thread at a time; start_pull/start_push use a thread of the Learner's own. An object
//          inherited by fork() refuses to work: attach in the child.
// Owns: its slot, until detach() or the destructor. What was not published by then is void, and its
//       samples stay uncommitted.
// Blocks: gradient_slot and begin_mini_batch with Synchrony::kStale and kBulk, rest_until, flush,
//         detach; each takes a deadline. push and a relaxed pull never wait for anybody, let_go
//         and tell_publications for what push does.
// Errors: kTimeout, kExhausted (no free slot; more sample ranges than a gradient can name),
//         kInvalidArgument, kCorrupt, kCancelled (the server ended, or this is a forked child).
class FFDL_API Learner {
 public:
  // Waits for the server's name to appear, and for a slot whose last owner is gone.
  static Result<std::unique_ptr<Learner>> attach(std::string_view name, Time deadline,
                                                 LearnerOptions options = {});
  // For threads of the server's process; the way into an anonymous segment.
  static Result<std::unique_ptr<Learner>> attach(const ParameterServer& server, Time deadline,
                                                 LearnerOptions options = {});
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  int slot() const;
  uint64_t parameters() const;
  uint32_t partitions() const;
  GradientType gradient_type() const;  // of the server's slots

  // The first position of a partition that nobody has committed yet: where whoever takes the
  // partition over goes on. Final once nobody else pushes samples of it.
  uint64_t committed(uint32_t partition) const;
  // The first that neither this learner has pushed nor anybody committed: where its next push of
  // the partition begins.
  Result<uint64_t> pushed(uint32_t partition) const;
  // How many separate ranges the next push can name: ranges_max, less what was accumulated.
  Result<uint64_t> ranges_left() const;

  // Who works on which partition; a SlotLedger (slot_ledger.h) hands them out. Holding is a lock of
  // the kernel, which ends with this learner however it ends. push() does not ask for it. hold()
  // tries once; false: another learner holds the partition, or what one published of it is not
  // folded yet. After let_go() others may have it as soon as all that this learner pushed of it is;
  // it waits for a start_push() that is under way.
  Result<bool> hold(uint32_t partition);
  Status let_go(uint32_t partition);
  bool is_free(uint32_t partition) const;  // nobody holds it, this learner included

  // The newest publication of each slot, whoever owns it: a learner that was killed may not have
  // told it. Sequences begin anew in a new segment.
  std::vector<Publication> publications() const;
  // From now on `told` hears of each publication of this learner, right after it, on the thread
  // that makes it. It may not call the learner. Waits for a start_push() that is under way.
  void tell_publications(std::function<void(const Publication&)> told);

  // Publishes what was accumulated and waits until `ready`, which is called on this thread whenever
  // gradients were folded, a learner has gone or a partition is free, and some times each second.
  // It may hold partitions and let them go. Meanwhile this learner takes no part in bounds and
  // rounds: others do not wait for it.
  Status rest_until(const std::function<bool()>& ready, Time deadline);

  // Waits while this learner is too far ahead of the others; at once with Synchrony::kAsync.
  Status begin_mini_batch(Time deadline);

  // begin_mini_batch, then the buffer for this mini-batch's gradient: `parameters()` floats to
  // overwrite whole. It is the shared slot itself, or private memory while the server is late and
  // where gradients have 16 bits.
  Result<std::span<float>> gradient_slot(Time deadline);

  // Commits the gradient in gradient_slot() together with the samples that made it.
  Result<PushResult> push(SampleRange samples);
  // The same for a gradient in memory of your own, which is copied once.
  Result<PushResult> push(std::span<const float> gradient, SampleRange samples);
  // The same for one gradient of several separate ranges, in the order in which they were used.
  Result<PushResult> push_ranges(std::span<const float> gradient,
                                 std::span<const SampleRange> samples);
  // The same for the gradient in gradient_slot().
  Result<PushResult> push_ranges(std::span<const SampleRange> samples);

  // The same for a gradient that touches few of the parameters: only what it names is copied,
  // published and updated. The server must have been created with rows_max.
  Result<PushResult> push_sparse(const SparseGradient& gradient, SampleRange samples);
  // The same for a dense gradient of 16-bit numbers: the bits of kBFloat16 or kFloat16. Best of the
  // server's own gradient_type; the other ones are converted.
  Result<PushResult> push_halves(GradientType type, std::span<const uint16_t> gradient,
                                 SampleRange samples);
  Result<PushResult> push_ranges(GradientType type, std::span<const uint16_t> gradient,
                                 std::span<const SampleRange> samples);

  // Copies the weights and returns their version.
  Result<uint64_t> pull(std::span<float> weights, PullMode mode = PullMode::kRelaxed);
  // Copies some rows of a table, of `row_size` floats from parameter `table` on, into
  // rows.size() x row_size floats. As kRelaxed.
  Result<uint64_t> pull_rows(uint64_t table, uint64_t row_size, std::span<const uint64_t> rows,
                             std::span<float> to);
  // The weights themselves, as they change: no copy, no consistency.
  std::span<const float> live_weights() const;

  // Transfers beside compute, on a thread of this Learner's own (GaDei's push and pull threads).
  // start_pull() begins a copy into a second private buffer; finish_pull() waits for it and gives
  // that buffer, valid until the next finish_pull(). start_push() hands over a gradient that must
  // stay untouched until finish_push() returns.
  Status start_pull(PullMode mode = PullMode::kRelaxed);
  struct Pulled {
    std::span<const float> weights;
    uint64_t version = 0;
  };
  Result<Pulled> finish_pull(Time deadline);
  Status start_push(std::span<const float> gradient, SampleRange samples);
  Result<PushResult> finish_push(Time deadline);

  // Publishes what was accumulated and waits until the server has folded all of it.
  Status flush(Time deadline);
  // flush, then gives the slot back.
  Status detach(Time deadline);

  // Not while a start_push() is under way.
  LearnerStats stats() const;

  class Impl;

 private:
  friend class AveragingLearner;
  friend class DeviceLearner;
  explicit Learner(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
