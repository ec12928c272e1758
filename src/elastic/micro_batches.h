#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/device_side.h"
#include "ffdl/communicator.h"
#include "ffdl/micro_batch_sum.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// The gradients of a session's steps, where they come in micro-batches: a sum for each run of
// buffers of one dtype.
class MicroBatches {
 public:
  using Shares = std::function<std::vector<uint64_t>()>;
  using Standing = std::function<Status()>;

  // Of `runs`, which outlive this, in the memory of `gpu` if there is one; a whole micro-batch has
  // `whole` samples. No `shares`: it is off. `standing` is asked before each of the operations that
  // a sum consists of.
  MicroBatches(const std::vector<std::span<const Buffer>>& runs, Shares shares, uint64_t whole,
               Standing standing, base::Gpu gpu = {});

  bool is_on() const { return static_cast<bool>(shares_); }

  // To be called by all members, before each step's first operation. Blocks only where the shares
  // are others than in the step before, or the world is another. Errors: those of MicroBatchSum.
  Status begin_step(Communicator& communicator, Time deadline);
  // One more of this member, the mean over `samples` samples. Errors: kInvalidArgument.
  Status add(uint64_t samples);
  // Makes the buffers the mean over all `samples` samples; empty ones are added for those of this
  // member that were not given. Blocks until the others have come.
  Status finish(uint64_t samples, Time deadline);
  // Whatever was added is dropped, and the next step makes other sums.
  void drop();
  // A step has begun.
  bool has_added() const { return added_ > 0; }

 private:
  uint64_t share() const;  // of this member
  Status add_weighted(uint64_t samples);

  const std::vector<std::span<const Buffer>>& runs_;
  const Shares shares_;
  const double whole_;
  const Standing standing_;
  const base::Gpu gpu_;
  std::unique_ptr<Communicator> asking_;  // that of the world, behind `standing_`
  std::vector<uint64_t> present_;         // shares that the sums were made for
  std::vector<std::unique_ptr<MicroBatchSum>> sums_;
  uint64_t added_ = 0;
};

}  // namespace ffdl::elastic
