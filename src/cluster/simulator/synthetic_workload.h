#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cluster/simulator/workload.h"
#include "ffdl/export.h"
#include "ffdl/status.h"

// Synthetic workloads for the simulated cluster.
namespace ffdl::cluster {

enum class Arrivals {
  kPoisson,  // at a constant rate
  kBursty,   // at six times the rate for ten minutes of every hour, otherwise none
  kDiurnal,  // at a rate that varies by 80 % over a day
};

struct SyntheticWorkload {
  Arrivals arrivals = Arrivals::kPoisson;
  int jobs = 160;
  // The part of the cluster that the jobs would use on average if each ran as its owner requests: 1
  // is all of it.
  double load = 0.9;
  int nodes = 16;
  int gpus_per_node = 4;
  uint64_t seed = 1;
};

// Draws a workload. Each job trains one of the programs, all equally likely, to its end. Its owner
// requests 1, 2, 4 or 8 workers, and a batch that is a power of two times the smallest. The batch
// is drawn among those that so many workers can do: the guess of an owner without experience. A
// program with a table of throughputs has no end. Its job requests one of the table's batches and
// takes 10 minutes to 10 hours, with every order of magnitude equally likely. The same seed gives
// the same workload. Errors: kInvalidArgument.
FFDL_API Result<std::vector<WorkloadJob>> make_workload(
    const std::map<std::string, ApplicationProfile>& profiles, const SyntheticWorkload& options);

// Draws a program for each job without one, among those that its workers can train, all equally
// likely. The job also gets a batch: one of the program's table, or the smallest measured one. Only
// the cluster and the seed of the options are used. Errors: kInvalidArgument (no program is
// possible; the message names the job and its line).
FFDL_API Status draw_programs(std::span<WorkloadJob> workload,
                              const std::map<std::string, ApplicationProfile>& profiles,
                              const SyntheticWorkload& options);

// Returns the profile of a program without measurements, as a table: k workers, up to workers_max,
// are k to the power of 0.8 times as fast as one.
FFDL_API ApplicationProfile unmeasured_program(std::string name, int workers_max);

}  // namespace ffdl::cluster
