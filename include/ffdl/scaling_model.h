#pragma once

#include <cstdint>
#include <span>

#include "ffdl/export.h"

// How long a training step takes, as a function of the workers and the batch: fitted to what was
// measured, refitted as more is measured. With the gradient's noise it says how fast a job really
// gets on.
namespace ffdl {

// The mean time of a step in one configuration.
struct StepObservation {
  int nodes = 1;
  int workers = 1;
  int64_t local_batch = 0;  // samples of one worker at a time
  double step_s = 0;
  double sync_s = 0;  // the part that waited for other workers; the rest is computation
};

// step = (compute^p + network^p)^(1/p): p = 1 is no overlap of the two, a large p is full overlap.
struct ScalingModel {
  // Exchanging gradients takes longer the more workers there are.
  struct Link {
    double base_s = 0;
    double per_worker_s = 0;  // for each worker beyond two
  };

  double compute_base_s = 0;
  double compute_per_sample_s = 0;
  Link within_node;
  Link across_nodes;
  double overlap = 1;         // p
  double relative_error = 0;  // of the steps it was fitted to, root of the mean square
  int workers_seen = 0;       // the most workers among these: beyond, the model is a guess

  // Seconds of one step that accumulates `accumulated` batches before the one that synchronises.
  FFDL_API double step_s(int nodes, int workers, int64_t local_batch,
                         int64_t accumulated = 0) const;
};

// The model that fits the observations best. What they do not tell is assumed favourably:
// computation is half constant, half in proportion to the batch until two batches were seen; a link
// that was never used costs nothing, or little more than the other. No observations: a model of
// zeros.
FFDL_API ScalingModel fit_scaling_model(std::span<const StepObservation> observations);

// How much of a step's worth is kept when the batch grows from `reference`: the ratio of the
// progress of a sample at `batch` to that of one at `reference`. noise_scale: variance over squared
// norm of the gradient, both at the batch `reference`.
FFDL_API double statistical_efficiency(double noise_scale, double reference, double batch);

}  // namespace ffdl
