#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ffdl/cluster_simulator.h"
#include "plan/interpolate.h"

namespace ffdl::plan {

// How a global batch is done by k workers: each takes `local` samples, `accumulated` + 1 times a
// step.
struct BatchSplit {
  int64_t local = 0;
  int64_t accumulated = 0;
  // Of a program known by a table: the batch is that of a row, however it is cut. `local` is it.
  bool is_whole = false;

  int64_t global(int workers) const {
    return is_whole ? local : workers * local * (accumulated + 1);
  }
  bool operator==(const BatchSplit&) const = default;
};

// The limits of a program's batches.
struct BatchLimits {
  int64_t global_min = 0;  // also the one that gradient statistics refer to
  int64_t global_max = 0;
  int64_t local_min = 0;
  int64_t local_max = 0;   // what a device's memory holds
  bool is_listed = false;  // by a table: no batch is cut or made up

  // One worker accumulates at least once beyond the smallest batch: without two parts of a batch
  // the variance of its gradient cannot be measured.
  BatchSplit split(int64_t batch, int workers) const;
};

struct StepTime {
  double step_s = 0;
  double sync_s = 0;

  // With accumulation, only the last part of a step synchronises.
  double total_s(int64_t accumulated) const {
    return step_s + (step_s - sync_s) * static_cast<double>(accumulated);
  }
};

struct GradientStatistics {
  double sqr = 0;
  double var = 0;

  bool operator==(const GradientStatistics&) const = default;

  // What one step of a batch `scale` times the smallest is worth, in steps of the smallest.
  double gain(double scale) const {
    const double noise = var / scale + sqr;
    return noise > 0 ? (var + sqr) / noise : 1;
  }
};

// A program as it was measured: the truth that the simulated jobs live in.
// Threads: not safe, for step times are computed once and kept.
class Application {
 public:
  // Errors: kInvalidArgument (an empty profile; the message names it).
  static Result<Application> from_profile(const ApplicationProfile& profile);

  const std::string& name() const { return name_; }
  const BatchLimits& limits() const { return limits_; }
  const std::vector<int64_t>& batches() const { return batches_; }  // that were measured, rising
  size_t epochs() const { return progress_.size(); }

  // Whether a table of throughputs is all that is known.
  bool is_table() const { return limits_.is_listed; }
  // The batch of the table that makes most of so many workers; nothing where none is possible.
  std::optional<int64_t> best_batch(int workers) const;
  // The fewest workers that a batch is possible with; 1 where there is no table.
  int least_workers(int64_t batch) const;

  // Progress at which an epoch, counted from 0, is over; infinite for a table's only one.
  double progress_after(size_t epoch) const { return progress_[epoch]; }

  // The statistics of an epoch; between two measured batches, in proportion.
  GradientStatistics gradients(int64_t batch, size_t epoch) const;

  // Nothing where neither measured nor between measurements.
  std::optional<StepTime> step_time(std::span<const int> placement, int64_t local_batch);

 private:
  static Result<Application> from_table(const ApplicationProfile& profile);
  std::optional<StepTime> placed_time(const std::vector<int>& placement, int64_t local_batch) const;

  std::string name_;
  BatchLimits limits_;
  std::vector<int64_t> batches_;
  std::vector<std::vector<EpochStatistics>> statistics_;  // by batch, then epoch
  std::vector<double> progress_;
  std::map<std::vector<int>, std::map<int64_t, StepTime>> placed_;
  std::vector<Sample> samples_;                     // nodes, workers, local batch
  std::map<int64_t, std::map<int, double>> table_;  // steps per second by batch and workers
  std::map<std::pair<std::vector<int>, int64_t>, std::optional<StepTime>> known_;
};

}  // namespace ffdl::plan
