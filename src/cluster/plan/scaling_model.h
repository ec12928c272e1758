#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ffdl/cluster/step_measurement.h"
#include "ffdl/export.h"

// A model of the time of a training step as a function of the workers and the batch. It is fitted
// to measurements, and refitted as more arrive. With the gradient's noise it predicts the real
// progress of a job.
namespace ffdl {

// The model step = (compute^p + network^p)^(1/p): p = 1 is no overlap, a large p full overlap.
struct ScalingModel {
  // The time to exchange gradients, which grows with the number of workers.
  struct Link {
    double base_s = 0;
    double per_worker_s = 0;  // for each worker beyond two
  };

  double compute_base_s = 0;
  double compute_per_sample_s = 0;
  Link within_node;
  Link across_nodes;
  double overlap = 1;         // p
  double relative_error = 0;  // root mean square, over the steps to which the model was fitted
  int workers_seen = 0;       // the most workers among these; predictions beyond are guesses

  // The uncertainty of the fit: the covariance of the parameters above (two of computation, two of
  // each link, 1 / overlap), each in units of its scale.
  static constexpr size_t kParameters = 7;
  std::array<double, kParameters> parameter_scale{};
  std::array<std::array<double, kParameters>, kParameters> covariance{};

  // Returns the seconds of one step that accumulates `accumulated` batches before the one that
  // synchronises.
  FFDL_API double step_s(int nodes, int workers, int64_t local_batch,
                         int64_t accumulated = 0) const;
  // Returns the standard deviation of step_s() relative to it. It is small near fitted
  // configurations, and large where the model assumes. About 95 of 100 true mean times are within a
  // factor of exp(2 u) of the prediction. Without measurements it is infinite.
  FFDL_API double uncertainty(int nodes, int workers, int64_t local_batch) const;
};

// Fits a model to measurements. Each counts once, whatever its number of steps. A worker computes
// an even part of the batch at once, rounded up: its local batch. Unknown parts are assumed
// favourably. Computation is half constant, half in proportion to the batch, until two batch sizes
// were measured. A link that was never used costs nothing, or little more than the other. Without
// measurements the model is zero.
//
// The uncertainty is that of a Gaussian around the fit (Laplace's approximation). Before any
// measurement a link may cost as much as the computation of the measured batches, and each further
// worker a tenth of it. The errors of the measurements are estimated from the quality of the fit,
// beginning with 5 %.
FFDL_API ScalingModel fit_scaling_model(std::span<const StepMeasurement> measurements);

// Returns the part of a step's efficiency that remains when the batch grows from `reference`: the
// progress per sample at `batch` over that at `reference`. noise_scale: variance over squared norm
// of the gradient, both at the batch `reference`.
FFDL_API double statistical_efficiency(double noise_scale, double reference, double batch);

}  // namespace ffdl
