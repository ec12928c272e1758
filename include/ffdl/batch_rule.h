#pragma once

#include <cstdint>

#include "ffdl/export.h"
#include "ffdl/gradient_noise.h"
#include "ffdl/status.h"

// What becomes of the batch and of the learning rate when the number of workers changes.
namespace ffdl {

// The factor on the learning rate when a step has s times the samples it was chosen for.
enum class LearningRateRule : uint32_t {
  kConstant,    // 1
  kLinear,      // s (Goyal et al., arXiv 1706.02677, section 2.1)
  kSquareRoot,  // the square root of s (Krizhevsky, arXiv 1404.5997, section 5): for Adam and the
                // like
  kAdaScale,    // what the gradient's noise allows: from 1 to s (Johnson et al., arXiv 2007.05105)
};

struct BatchRule {
  uint64_t samples = 0;  // of one step, over all workers: what the learning rate was chosen for
  // With how many workers. More have more samples in a step, each as many as before. 0: a step has
  // `samples` whatever their number, each worker less the more they are.
  int workers = 0;
  uint64_t samples_max = 0;      // of one step; 0: no bound
  uint64_t micro_batch_max = 0;  // samples that a worker can compute at a time; 0: no bound
  LearningRateRule learning_rate = LearningRateRule::kLinear;
};

// One step, as one worker sees it.
struct StepBatch {
  uint64_t samples = 0;        // over all workers
  uint64_t share = 0;          // of this worker: what it takes of the ledger
  uint64_t micro_batches = 0;  // to compute its share in, one after another, at most a sample apart
  double learning_rate_factor = 1;
  // Steps of `rule.samples` samples that this one is worth: by how much a schedule of the learning
  // rate goes on. 1 but for AdaScale, where it is the gain.
  double progress = 1;

  bool operator==(const StepBatch&) const = default;
};

// The step of worker `rank` of `workers`. `noise` is for AdaScale alone; where nothing is known of
// it yet the factor is 1.
//   const auto batch = step_batch(rule, session.world().rank, session.world().size(),
//                                 noise->noise_scale());
//   auto ranges = ledger->take(batch->share);
// Shares are those of even_shares(): where they are not equal, the first workers have one more.
// Threads: any; a function of values. Blocks: never. Errors: kInvalidArgument.
FFDL_API Result<StepBatch> step_batch(const BatchRule& rule, int rank, int workers,
                                      const NoiseScale& noise = {});

}  // namespace ffdl
