#pragma once

#include <memory>

#include "benchmarks/harness/resident.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::bench {

inline constexpr std::chrono::milliseconds kCutLease{500};

// Three hosts that train one job by a session each, over a store on host 0 that they reach at their
// lease of 500 ms. One of the hosts without the store is cut off at a time.
// Threads: one.
// Owns: the processes.
class CutJob {
 public:
  static Result<CutJob> start();
  // Cuts a host off without notice, and joins it again. Returns the milliseconds from the cut until
  // both others have applied a step in a world of two.
  Result<double> cut();

 private:
  explicit CutJob(std::unique_ptr<Resident> process) : process_(std::move(process)) {}
  std::unique_ptr<Resident> process_;
};

int play_cut_job();

inline constexpr std::chrono::milliseconds kLossLease{2000};

// The same over an etcd on each of the three hosts. One host dies with all its processes.
class LossJob {
 public:
  static Result<LossJob> start();
  // Starts a job, and kills a host of it. Returns the milliseconds from its death until both others
  // have applied a step in a world of two.
  Result<double> lose();

 private:
  explicit LossJob(std::unique_ptr<Resident> process) : process_(std::move(process)) {}
  std::unique_ptr<Resident> process_;
};

int play_loss_job();

}  // namespace ffdl::bench
