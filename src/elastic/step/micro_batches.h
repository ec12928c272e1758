#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/device_side.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/comm/micro_batch_sum.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// The gradients of a session's steps that arrive in micro-batches. There is one sum for each run of
// buffers of one dtype.
class MicroBatches {
 public:
  using Shares = std::function<std::vector<uint64_t>()>;
  using Standing = std::function<Status()>;

  // Requires that `runs` outlive this object; they are in the memory of `gpu`, if there is one. A
  // whole micro-batch has `whole` samples. Without `shares` it is off. `standing` is called before
  // each operation of a sum.
  MicroBatches(const std::vector<std::span<const Buffer>>& runs, Shares shares, uint64_t whole,
               Standing standing, base::Gpu gpu = {});

  bool is_on() const { return static_cast<bool>(shares_); }

  // Begins a step. All members call it before the first operation of each step. Blocks only if the
  // shares or the world differ from those of the last step. Errors: those of MicroBatchSum.
  Status begin_step(Communicator& communicator, Time deadline);
  // Adds a micro-batch of this member, the mean over `samples` samples. Errors: kInvalidArgument.
  Status add(uint64_t samples);
  // Sets the buffers to the mean over all `samples` samples. Adds empty micro-batches for those
  // that this member did not add. Blocks until the other members arrive.
  Status finish(uint64_t samples, Time deadline);
  // Drops what this member added in this step. The sums are kept.
  void clear();
  // Drops the sums, too. The next step makes new ones.
  void drop();
  // Reports whether a step has begun.
  bool has_added() const { return added_ > 0; }
  // Returns the samples that this member added in this step.
  uint64_t samples() const { return samples_; }

 private:
  uint64_t share() const;  // of this member
  Status add_weighted(uint64_t samples);

  const std::vector<std::span<const Buffer>>& runs_;
  const Shares shares_;
  const double whole_;
  const Standing standing_;
  const base::Gpu gpu_;
  std::unique_ptr<Communicator> asking_;  // the world's; checks `standing_` before each operation
  std::vector<uint64_t> present_;         // shares that the sums were made for
  std::vector<std::unique_ptr<MicroBatchSum>> sums_;
  uint64_t added_ = 0;
  uint64_t samples_ = 0;
};

}  // namespace ffdl::elastic
