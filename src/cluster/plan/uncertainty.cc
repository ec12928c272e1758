#include "cluster/plan/uncertainty.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace ffdl {
namespace {

constexpr size_t kCount = ScalingModel::kParameters;
using Vector = std::array<double, kCount>;
using Matrix = std::array<Vector, kCount>;

constexpr double kErrorBefore = 0.05;  // relative error of an observation, before any was compared
constexpr double kErrorWeight = 4;     // the weight of that error, in measurements
constexpr double kStep = 0.05;         // part of a parameter's scale, for differences
constexpr int kRounds = 3;             // the errors and the covariance depend on each other

Vector parameters_of(const ScalingModel& model) {
  return {model.compute_base_s,      model.compute_per_sample_s,
          model.within_node.base_s,  model.within_node.per_worker_s,
          model.across_nodes.base_s, model.across_nodes.per_worker_s,
          1 / model.overlap};
}

void set_parameters(const Vector& values, ScalingModel& model) {
  model.compute_base_s = values[0];
  model.compute_per_sample_s = values[1];
  model.within_node = {values[2], values[3]};
  model.across_nodes = {values[4], values[5]};
  model.overlap = 1 / values[6];
}

double log_step(const ScalingModel& model, int nodes, int workers, int64_t batch) {
  return std::log(std::max(model.step_s(nodes, workers, batch), 1e-300));
}

// Returns how the logarithm of a step's time changes with each parameter, by its scale.
Vector slopes(const ScalingModel& model, int nodes, int workers, int64_t batch) {
  const Vector at = parameters_of(model);
  Vector slopes{};
  for (size_t i = 0; i < kCount; ++i) {
    const double step = kStep * model.parameter_scale[i];
    Vector above = at, below = at;
    above[i] += step;
    below[i] = std::max(below[i] - step, i + 1 == kCount ? 0.05 : 0.0);
    if (i + 1 == kCount) above[i] = std::min(above[i], 1.0);
    ScalingModel more = model, less = model;
    set_parameters(above, more);
    set_parameters(below, less);
    slopes[i] = (log_step(more, nodes, workers, batch) - log_step(less, nodes, workers, batch)) *
                model.parameter_scale[i] / (above[i] - below[i]);
  }
  return slopes;
}

// Inverts by Gauss and Jordan: the matrix is symmetric and its eigenvalues are at least 1.
Matrix inverse_of(Matrix matrix) {
  Matrix inverse{};
  for (size_t i = 0; i < kCount; ++i) inverse[i][i] = 1;
  for (size_t pivot = 0; pivot < kCount; ++pivot) {
    const double scale = 1 / matrix[pivot][pivot];
    for (size_t column = 0; column < kCount; ++column) {
      matrix[pivot][column] *= scale;
      inverse[pivot][column] *= scale;
    }
    for (size_t row = 0; row < kCount; ++row) {
      if (row == pivot) continue;
      const double factor = matrix[row][pivot];
      for (size_t column = 0; column < kCount; ++column) {
        matrix[row][column] -= factor * matrix[pivot][column];
        inverse[row][column] -= factor * inverse[pivot][column];
      }
    }
  }
  return inverse;
}

// A measured value with its slopes. Each observation has two: the whole step, and the computation
// in it.
struct Told {
  Vector slopes;
  double error;  // the fit's error, in the logarithm
};

std::vector<Told> told_by(std::span<const StepMeasurement> measurements,
                          const ScalingModel& model) {
  std::vector<Told> told;
  for (const StepMeasurement& seen : measurements) {
    const double compute = std::max(seen.step_s - seen.sync_s, 1e-9);
    const int64_t batch = cluster::local_batch_of(seen);
    told.push_back({slopes(model, seen.nodes, seen.workers, batch),
                    std::log(seen.step_s) - log_step(model, seen.nodes, seen.workers, batch)});
    told.push_back({slopes(model, 1, 1, batch),
                    std::log(compute) - log_step(model, 1, 1, batch)});
  }
  return told;
}

}  // namespace

namespace cluster {

void estimate_uncertainty(std::span<const StepMeasurement> measurements, ScalingModel& model) {
  double compute_s = 0, batch = 0;
  for (const StepMeasurement& seen : measurements) {
    compute_s += std::max(seen.step_s - seen.sync_s, 1e-9);
    batch += static_cast<double>(local_batch_of(seen));
  }
  const auto count = static_cast<double>(measurements.size());
  compute_s /= count;
  batch = std::max(batch / count, 1.0);
  model.parameter_scale = {compute_s, compute_s / batch, compute_s, compute_s / 10,
                           compute_s, compute_s / 10,    0.5};
  const std::vector<Told> told = told_by(measurements, model);
  double square_error = 0;
  for (const Told& one : told) square_error += one.error * one.error;
  double variance = kErrorBefore * kErrorBefore;
  for (int round = 0; round < kRounds; ++round) {
    Matrix precision{};
    for (size_t i = 0; i < kCount; ++i) precision[i][i] = 1;  // the prior
    for (const Told& one : told) {
      for (size_t i = 0; i < kCount; ++i) {
        for (size_t j = 0; j < kCount; ++j) {
          precision[i][j] += one.slopes[i] * one.slopes[j] / variance;
        }
      }
    }
    model.covariance = inverse_of(precision);
    double free = static_cast<double>(told.size());  // the errors less what the fit has used up
    for (size_t i = 0; i < kCount; ++i) free -= 1 - model.covariance[i][i];
    // Less two, as Student's distribution is wider: the size of the errors is an estimate, too.
    variance = (kErrorWeight * kErrorBefore * kErrorBefore + square_error) /
               (kErrorWeight - 2 + std::max(free, 0.0));
  }
}

}  // namespace cluster

double ScalingModel::uncertainty(int nodes, int workers, int64_t local_batch) const {
  if (parameter_scale[0] == 0) return INFINITY;
  const Vector slope = slopes(*this, nodes, workers, local_batch);
  double variance = 0;
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t j = 0; j < kCount; ++j) variance += slope[i] * covariance[i][j] * slope[j];
  }
  return std::sqrt(std::max(variance, 0.0));
}

}  // namespace ffdl
