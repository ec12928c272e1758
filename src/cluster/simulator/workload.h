#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

// The inputs of the simulated cluster: measured programs, and the jobs that train them.
namespace ffdl::cluster {

// The time of one step. sync_s: the part of step_s spent waiting for other workers.
struct MeasuredStep {
  std::vector<int> placement;  // workers on each node
  int64_t local_batch = 0;     // samples of one worker
  double step_s = 0;
  double sync_s = 0;
};

// The training of one epoch at one global batch. `progress` counts steps of the smallest batch: the
// equivalent of all steps so far, at any batch.
struct EpochStatistics {
  double progress = 0;  // at the end of the epoch
  double grad_sqr = 0;  // squared norm of the gradient, and its variance at the smallest batch
  double grad_var = 0;
};

// The measurements of one program: the first three, or a table of throughputs.
struct ApplicationProfile {
  std::string name;
  std::vector<MeasuredStep> placed{};  // for these placements exactly
  std::vector<MeasuredStep> spread{};  // for this number of nodes and workers, in any placement
  std::map<int64_t, std::vector<EpochStatistics>> epochs{};  // by global batch, equally many each
  // Steps per second, in any placement. Only the listed configurations are possible, each sample
  // has the same value, and only a job's own `duration_s` determines how long it trains.
  std::map<int64_t, std::map<int, double>> throughputs{};  // by global batch, then workers
};

// The place of a job in its file, for messages; line 0: none.
struct WorkloadSource {
  std::string file{};
  size_t line = 0;
  size_t workers_column = 0;  // from 1, as the others; 0: there is none
  size_t batch_column = 0;
  size_t application_column = 0;
  size_t time_column = 0;
};

struct WorkloadJob {
  std::string name{};
  std::string application{};  // empty: drawn by draw_programs()
  double submitted_s = 0;
  int workers = 0;    // requested by its owner
  int64_t batch = 0;  // global
  // Its duration with these workers and this batch throughout. 0: it trains its program to the end.
  double duration_s = 0;
  WorkloadSource source{};
};

}  // namespace ffdl::cluster
