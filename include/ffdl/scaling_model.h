#pragma once

#include <array>
#include <cstddef>
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

  // What the observations leave open: the covariance of the parameters above (two of computation,
  // two of each link, 1 / overlap), each in units of its scale.
  static constexpr size_t kParameters = 7;
  std::array<double, kParameters> parameter_scale{};
  std::array<std::array<double, kParameters>, kParameters> covariance{};

  // Seconds of one step that accumulates `accumulated` batches before the one that synchronises.
  FFDL_API double step_s(int nodes, int workers, int64_t local_batch,
                         int64_t accumulated = 0) const;
  // The standard deviation of step_s() relative to it: small where it was fitted to measurements of
  // like configurations, large where it assumes. About 95 of 100 true mean times lie within a
  // factor of exp(2 u) of the prediction. A model without observations: infinite.
  FFDL_API double uncertainty(int nodes, int workers, int64_t local_batch) const;
};

// The model that fits the observations best. What they do not tell is assumed favourably:
// computation is half constant, half in proportion to the batch until two batches were seen; a link
// that was never used costs nothing, or little more than the other. No observations: a model of
// zeros.
//
// The uncertainty is that of a Gaussian around the fit (Laplace's approximation): before any
// observation a link may cost as much as the computation of the observed batches, and each worker
// more of it a tenth; the errors of the observations are estimated from how well the model fits
// them, beginning with 5 %.
FFDL_API ScalingModel fit_scaling_model(std::span<const StepObservation> observations);

// How much of a step's worth is kept when the batch grows from `reference`: the ratio of the
// progress of a sample at `batch` to that of one at `reference`. noise_scale: variance over squared
// norm of the gradient, both at the batch `reference`.
FFDL_API double statistical_efficiency(double noise_scale, double reference, double batch);

}  // namespace ffdl
