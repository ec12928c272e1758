#pragma once

#include <cstdint>
#include <memory>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/tuning/gradient_noise.h"

// The batch size and the learning rate when the number of workers changes.
namespace ffdl {

// The factor on the learning rate when a step has s times the samples for which it was chosen.
enum class LearningRateRule : uint32_t {
  kConstant,    // 1
  kLinear,      // s (Goyal et al., arXiv 1706.02677, section 2.1)
  kSquareRoot,  // the square root of s (Krizhevsky, arXiv 1404.5997, section 5): for Adam and
                // similar rules
  kAdaScale,    // from 1 to s, by the gradient's noise (Johnson et al., arXiv 2007.05105)
};

struct BatchRule {
  uint64_t samples = 0;  // of one step, over all workers, for which the learning rate was chosen
  // The number of workers for which `samples` was chosen. With more workers a step has more
  // samples, and each worker's share stays. 0: a step always has `samples`, so a worker's share
  // shrinks.
  int workers = 0;
  uint64_t samples_max = 0;      // of one step; 0: no bound
  uint64_t micro_batch_max = 0;  // samples that a worker can compute at once; 0: no bound
  LearningRateRule learning_rate = LearningRateRule::kLinear;
};

// One step of one worker.
struct StepBatch {
  uint64_t samples = 0;        // over all workers
  uint64_t share = 0;          // of this worker: the count for the ledger's take()
  uint64_t micro_batches = 0;  // of its share, one after another; sizes differ by at most 1 sample
  double learning_rate_factor = 1;
  // The value of this step in steps of `rule.samples` samples, by which a learning rate schedule
  // advances. 1, except for AdaScale, where it is the gain.
  double progress = 1;

  bool operator==(const StepBatch&) const = default;
};

// Computes the step of worker `rank` of `workers`. `noise` is for AdaScale alone; if it is not
// known yet the factor is 1.
//   const auto batch = step_batch(rule, session.world().rank, session.world().size(),
//                                 noise->noise_scale());
//   auto ranges = ledger->take(batch->share);
// Shares are those of even_shares(): if they are not equal, the first workers have one more.
// Threads: any; a pure function. Blocks: never. Errors: kInvalidArgument.
FFDL_API Result<StepBatch> step_batch(const BatchRule& rule, int rank, int workers,
                                      const NoiseScale& noise = {});

// The batch size of a job that may be changed from outside while it trains, such as by the
// autoscaler (autoscaler.h). A member's request travels with its next step, and applies to all
// members from the step after on. No member stops, and no step has two batch sizes.
//   auto batch = BatchSizeController::create(64);
//   ... SessionOptions::participants = {batch.get(), ledger->participant()} ...
//   batch->want(wanted.batch, wanted.workers);         // any number of times
//   auto ranges = ledger->take(batch->share());        // a ledger on demand
// A ledger of one order (SampleOrder::kGlobal) divides its steps itself, and needs the size:
//   options.batch_size_controller = [&] { return batch->samples(); };  // LedgerMemberOptions
//   auto ranges = ledger->take();
// The order of the samples stays; the boundaries between steps change from that step on.
// The learning rate follows the rules of batch_size.h, with samples() over the batch size for which
// it was chosen.
// Threads: want() from any; otherwise one at a time, that of the session.
// Blocks: never.
// Errors: kInvalidArgument; at restore() kCorrupt.
class FFDL_API BatchSizeController : public StepParticipant {
 public:
  // Creates a controller. `samples`: of a step over all members, until another number is agreed on;
  // the same at all members.
  static Result<std::unique_ptr<BatchSizeController>> create(uint64_t samples);

  // Requests steps of `samples` samples, as soon as the job has `members` members, or at once if it
  // has them. So a batch size for a new number of members takes effect with that number. If several
  // members have requests, the one with the lowest rank wins. 0 samples: no request.
  virtual void want(uint64_t samples, int members) = 0;

  // Returns the samples of the next step over all members. share() returns this member's part:
  // even_shares(). The parts of all members add up to one batch, except in the first step of a
  // newcomer, which has none.
  virtual uint64_t samples() const = 0;
  virtual uint64_t share() const = 0;
};

}  // namespace ffdl
