#include "cluster/plan/scaling_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "cluster/plan/uncertainty.h"

namespace ffdl {
namespace {

using cluster::local_batch_of;

struct Line {
  double base = 0;
  double slope = 0;

  double at(double x) const { return base + slope * x; }
};

// Returns the line through points (x, y), neither base nor slope below 0, that is best by relative
// error.
Line fit_line(std::span<const double> x, std::span<const double> y) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double weight = 1 / (y[i] * y[i]);
    w += weight;
    wx += weight * x[i];
    wy += weight * y[i];
    wxx += weight * x[i] * x[i];
    wxy += weight * x[i] * y[i];
  }
  const double determinant = w * wxx - wx * wx;
  Line line;
  if (determinant > 1e-12 * w * wxx) {
    line = {(wy * wxx - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant};
  } else {
    line = {wy / w, 0};
  }
  if (line.slope < 0) line = {wy / w, 0};
  if (line.base < 0) line = {0, wxy / wxx};
  return line;
}

void fit_compute(std::span<const StepMeasurement> measurements, ScalingModel& model) {
  std::vector<double> batches, times;
  for (const StepMeasurement& seen : measurements) {
    batches.push_back(static_cast<double>(local_batch_of(seen)));
    times.push_back(std::max(seen.step_s - seen.sync_s, 1e-9));
  }
  const bool one_batch = std::set(batches.begin(), batches.end()).size() == 1;
  const Line line = fit_line(batches, times);
  model.compute_base_s = one_batch ? line.base / 2 : line.base;
  model.compute_per_sample_s = one_batch ? line.base / 2 / batches[0] : line.slope;
}

// Returns the network's time under an assumed overlap, from the steps on one node or on several.
ScalingModel::Link fit_link(std::span<const StepMeasurement> measurements,
                            const ScalingModel& model, bool across) {
  std::vector<double> workers, times;
  for (const StepMeasurement& seen : measurements) {
    if (seen.workers < 2 || (seen.nodes > 1) != across) continue;
    const double compute = model.step_s(1, 1, local_batch_of(seen));
    const double rest = std::pow(seen.step_s, model.overlap) - std::pow(compute, model.overlap);
    workers.push_back(seen.workers - 2);
    times.push_back(std::max(std::pow(std::max(rest, 0.0), 1 / model.overlap), 1e-3 * seen.step_s));
  }
  if (workers.empty()) return {};
  const Line line = fit_line(workers, times);
  return {line.base, line.slope};
}

double relative_error(std::span<const StepMeasurement> measurements, const ScalingModel& model) {
  double sum = 0;
  for (const StepMeasurement& seen : measurements) {
    const double error =
        model.step_s(seen.nodes, seen.workers, local_batch_of(seen)) / seen.step_s - 1;
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(measurements.size()));
}

}  // namespace

double ScalingModel::step_s(int nodes, int workers, int64_t local_batch,
                            int64_t accumulated) const {
  const double compute = compute_base_s + compute_per_sample_s * static_cast<double>(local_batch);
  double step = compute;
  if (workers > 1) {
    const Link& link = nodes > 1 ? across_nodes : within_node;
    const double network = link.base_s + link.per_worker_s * (workers - 2);
    const double longer = std::max(compute, network), shorter = std::min(compute, network);
    if (overlap == 1) return compute * static_cast<double>(accumulated + 1) + network;
    if (longer > 0) step = longer * std::pow(1 + std::pow(shorter / longer, overlap), 1 / overlap);
  }
  return step + compute * static_cast<double>(accumulated);
}

ScalingModel fit_scaling_model(std::span<const StepMeasurement> measurements) {
  ScalingModel best;
  if (measurements.empty()) return best;
  ScalingModel model;
  fit_compute(measurements, model);
  for (const StepMeasurement& seen : measurements) {
    model.workers_seen = std::max(model.workers_seen, seen.workers);
  }
  best.relative_error = INFINITY;
  for (const double overlap : {1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0}) {
    model.overlap = overlap;
    model.within_node = fit_link(measurements, model, false);
    model.across_nodes = fit_link(measurements, model, true);
    model.relative_error = relative_error(measurements, model);
    if (model.relative_error < best.relative_error - 1e-6) best = model;
  }
  // The network between nodes is never faster than within one; a little slower without
  // measurements.
  const bool across_seen = std::any_of(measurements.begin(), measurements.end(),
                                       [](const StepMeasurement& seen) { return seen.nodes > 1; });
  if (!across_seen) {
    best.across_nodes = {best.within_node.base_s * 1.1, best.within_node.per_worker_s * 1.1};
  }
  cluster::estimate_uncertainty(measurements, best);
  return best;
}

double statistical_efficiency(double noise_scale, double reference, double batch) {
  const double scale = batch / reference;
  return (noise_scale + 1) / (noise_scale + scale);
}

}  // namespace ffdl
