#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ffdl/cluster_simulator.h"
#include "ffdl/export.h"
#include "ffdl/status.h"

// Workloads that are drawn, for the simulated cluster.
namespace ffdl {

enum class Arrivals {
  kPoisson,  // at one rate all the time
  kBursty,   // ten minutes of every hour six times the rate, and none in the rest
  kDiurnal,  // the rate swings by 80 % over a day
};

struct SyntheticWorkload {
  Arrivals arrivals = Arrivals::kPoisson;
  int jobs = 160;
  // What the jobs would use of the cluster if each ran as its owner asks: 1 is all of it, on
  // average.
  double load = 0.9;
  int nodes = 16;
  int gpus_per_node = 4;
  uint64_t seed = 1;
};

// Each job trains one of the programs, all equally likely, to its end. Its owner asks for 1, 2, 4
// or 8 workers, and for a batch that is a power of two times the smallest, at random among those
// that so many workers can do; so it is as good a guess as an owner makes who has not tried. A
// table of throughputs says nothing of an end: such a job asks for one of its batches and takes 10
// minutes to 10 hours, any order of magnitude equally likely. The same seed gives the same
// workload. Errors: kInvalidArgument.
FFDL_API Result<std::vector<WorkloadJob>> make_workload(
    const std::map<std::string, ApplicationProfile>& profiles, const SyntheticWorkload& options);

// Gives each job of the workload that names no program one of those that can be trained with its
// workers, all equally likely, and a batch: one of a table's, or the smallest where others were
// measured. Of the options only the cluster and the seed matter. Errors: kInvalidArgument (no
// program can; the message names the job and its line).
FFDL_API Status draw_programs(std::span<WorkloadJob> workload,
                              const std::map<std::string, ApplicationProfile>& profiles,
                              const SyntheticWorkload& options);

// A program of which nothing was measured, as a table: k workers, up to so many, are k to the power
// of 0.8 times as fast as one.
FFDL_API ApplicationProfile unmeasured_program(std::string name, int workers_max);

}  // namespace ffdl
