#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/learner.h"
#include "ffdl/partition_ledger.h"
#include "ffdl/sample_ledger.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

// Which samples a learner of a parameter server computes its gradients from. It has no state that
// learners share but the server's segment: push() commits gradient and samples with one store, a
// lock of the kernel says who works on a partition, and the next one is found by looking. So each
// sample is in the weights once per epoch, whoever is killed: learners, or the server.
// docs/data.md has the rules.
//   auto learner = Learner::attach("digits", deadline_in(5s));
//   auto ledger = SlotLedger::create({.samples = n, .partition_samples = 64, .epochs = 3},
//   **learner); while (!(*ledger)->is_done()) {
//     auto ranges = (*ledger)->take(32);
//     if (ranges->empty()) (*ledger)->wait(deadline_in(1s));  // others hold the rest of the epoch
//     ... gradient_slot(), pull(), compute, and errors, left out here
//     (*learner)->push_ranges(*ranges);                       // commits what was taken
//   }
//   (*learner)->detach(deadline_in(5s));
// All learners of a server give the same options but for the last two; the server has as many
// partitions as the data set, or more.
// Threads: one at a time, that of the learner; samples() and sample_indices() from any.
// Owns: no partition: the learner holds them, until this ends. Borrows the learner, which must
//       outlive it; one ledger to a learner.
// Blocks: wait(); its end for what a start_push() does.
// Errors: kInvalidArgument (a start_push() is under way: finish_push() first), kCancelled (the
//         learner is detached, or the server has ended).
class FFDL_API SlotLedger final : public SampleLedger {
 public:
  // SampleOrder::kOnDemand. on_stable is told each publication of this learner by push(), as step
  // 256 * sequence + slot of member "slot-<slot>". What a killed one did not tell is told by the
  // next ledger that is made, or at the end of the epoch by all: give it to all of them.
  // Errors: kInvalidArgument.
  static Result<std::unique_ptr<SlotLedger>> create(const PartitionLedgerOptions& options,
                                                    Learner& learner);
  ~SlotLedger() override;
  SlotLedger(const SlotLedger&) = delete;
  SlotLedger& operator=(const SlotLedger&) = delete;

  // What the next push() names: all of it, in any number of pushes, in this order; of as many
  // partitions as the push can name. Empty: others hold the rest of this epoch, the server is so
  // late that the learner cannot accumulate more (ranges_max), or all is done.
  Result<std::vector<SampleRange>> take(uint64_t count = kAll) override;
  // The samples of take() that are not pushed yet.
  uint64_t taken() const override;
  const std::vector<SampleRange>& leases() const override;

  // Waits while take() would give nothing: publishes what the learner has accumulated, and takes it
  // out of bounds and rounds meanwhile. At once when all is done. Errors: kTimeout.
  Status wait(Time deadline);

  uint64_t samples() const override;
  // As this learner last saw them; committed() looks at each partition.
  uint64_t epoch() const override;
  uint64_t committed() const override;
  bool is_done() const override;
  Result<std::vector<uint64_t>> sample_indices(std::span<const SampleRange> ranges) const override;

 private:
  class Impl;
  explicit SlotLedger(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
