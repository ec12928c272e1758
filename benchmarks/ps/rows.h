#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"
#include "benchmarks/harness/team.h"
#include "benchmarks/reference.h"
#include "ffdl/learner.h"
#include "ffdl/parameter_server.h"

// The groups of rows of './dev bench ps', each in a file of its own.
namespace ffdl::bench {

inline constexpr Duration kPatience = std::chrono::seconds(20);

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
