#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "cluster/plan/interpolate.h"
#include "cluster/simulator/workload.h"
#include "ffdl/status.h"

namespace ffdl::cluster {

// The division of a global batch over k workers: each takes `local` samples, `accumulated` + 1
// times a step.
struct BatchSplit {
  int64_t local = 0;
  int64_t accumulated = 0;
  // For a program known by a table: `local` is the whole batch of a row, and no worker's part.
  bool is_whole = false;

  int64_t global(int workers) const {
    return is_whole ? local : workers * local * (accumulated + 1);
  }
  bool operator==(const BatchSplit&) const = default;
};

// The limits of a program's batches.
struct BatchLimits {
  int64_t global_min = 0;  // also the reference of gradient statistics
  int64_t global_max = 0;
  int64_t local_min = 0;
  int64_t local_max = 0;   // limit of a device's memory
  bool is_listed = false;  // known by a table: no batch is split or interpolated

  // Splits a batch. One worker accumulates at least once beyond the smallest batch: without two
  // parts of a batch the variance of its gradient cannot be measured.
  BatchSplit split(int64_t batch, int workers) const;
};

struct StepTime {
  double step_s = 0;
  double sync_s = 0;

  // Returns the time of a step. With accumulation, only the last part of it synchronises.
  double total_s(int64_t accumulated) const {
    return step_s + (step_s - sync_s) * static_cast<double>(accumulated);
  }
};

struct GradientStatistics {
  double sqr = 0;
  double var = 0;

  bool operator==(const GradientStatistics&) const = default;

  // Returns the value of one step of a batch `scale` times the smallest, in steps of the smallest.
  double gain(double scale) const {
    const double noise = var / scale + sqr;
    return noise > 0 ? (var + sqr) / noise : 1;
  }
};

// A program as it was measured: the ground truth of the simulated jobs.
// Threads: not safe, since step times are computed once and kept.
class Application {
 public:
  // Errors: kInvalidArgument (an empty profile; the message names it).
  static Result<Application> from_profile(const ApplicationProfile& profile);

  const std::string& name() const { return name_; }
  const BatchLimits& limits() const { return limits_; }
  const std::vector<int64_t>& batches() const { return batches_; }  // measured ones, rising
  size_t epochs() const { return progress_.size(); }

  // Returns true if only a table of throughputs is known.
  bool is_table() const { return limits_.is_listed; }
  // Returns the batch of the table with the highest rate on so many workers; nothing if none is
  // possible.
  std::optional<int64_t> best_batch(int workers) const;
  // Returns the fewest workers with which a batch is possible; 1 without a table.
  int least_workers(int64_t batch) const;

  // Returns the progress at the end of an epoch, counted from 0; infinite for a table's only one.
  double progress_after(size_t epoch) const { return progress_[epoch]; }

  // Returns the statistics of an epoch; between two measured batches, in proportion.
  GradientStatistics gradients(int64_t batch, size_t epoch) const;

  // Returns nothing if the time is neither measured nor between measurements.
  std::optional<StepTime> step_time(std::span<const int> placement, int64_t local_batch);

 private:
  static Result<Application> from_table(const ApplicationProfile& profile);
  std::optional<StepTime> placed_time(const std::vector<int>& placement, int64_t local_batch) const;

  std::string name_;
  BatchLimits limits_;
  std::vector<int64_t> batches_;
  std::vector<std::vector<EpochStatistics>> statistics_;  // indexed by batch, then epoch
  std::vector<double> progress_;
  std::map<std::vector<int>, std::map<int64_t, StepTime>> placed_;
  std::vector<Sample> samples_;                     // nodes, workers, local batch
  std::map<int64_t, std::map<int, double>> table_;  // steps per second by batch and workers
  std::map<std::pair<std::vector<int>, int64_t>, std::optional<StepTime>> known_;
};

}  // namespace ffdl::cluster
