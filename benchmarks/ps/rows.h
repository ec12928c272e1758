#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"
#include "benchmarks/harness/team.h"
#include "ffdl/learner.h"
#include "ffdl/parameter_server.h"

// The groups of rows of './dev bench ps', each in a file of its own.
namespace ffdl::bench {

inline constexpr Duration kPatience = std::chrono::seconds(20);

// What this machine can do, measured at the start of the run that uses it.
struct Reference {
  std::vector<int> cpus;
  int threads = 1;                     // of server and loops where a row says "all"
  uint64_t large_bytes = 0;            // weights that no cache holds
  double traffic_bytes_per_s = 0;      // all threads
  double traffic_one_bytes_per_s = 0;  // one thread
  double round_trip_s = 0;  // of a cache line between two processes; 0 with one processor
};

Reference measure_machine(Suite& suite);

void fold_rows(Suite& suite, const Reference& machine);
void transfer_rows(Suite& suite, const Reference& machine);
void latency_rows(Suite& suite, const Reference& machine);
void train_rows(Suite& suite, const Reference& machine);
void death_rows(Suite& suite, const Reference& machine);
void peer_rows(Suite& suite);

// A server in this process, and its one learner.
struct Pair {
  std::unique_ptr<ParameterServer> server;
  std::unique_ptr<Learner> learner;
};

// An anonymous segment, gradients not searched for NaN, both gradient buffers filled and folded.
Result<Pair> make_pair_in_process(uint64_t parameters, UpdateRuleKind rule, int threads);

// Hands over what is in the learner's slot and waits until it is folded; the seconds of both.
Result<double> push_and_fold(Learner& learner);

// A name that no other run uses.
std::string segment_name();

// The children that this program starts of itself: bench_ps --role NAME SEGMENT ...
int play_role(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
