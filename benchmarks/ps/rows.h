#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"
#include "benchmarks/harness/team.h"
#include "benchmarks/reference.h"
#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"

// The groups of rows of './dev bench ps', each in a file of its own.
namespace ffdl::bench {

inline constexpr Duration kPatience = std::chrono::seconds(120);

void fold_rows(Suite& suite, const Reference& machine);
void transfer_rows(Suite& suite, const Reference& machine);
void latency_rows(Suite& suite, const Reference& machine);
void train_rows(Suite& suite, const Reference& machine);
void death_rows(Suite& suite, const Reference& machine);
void peer_rows(Suite& suite);

// A server in this process and its one learner.
struct Pair {
  std::unique_ptr<ParameterServer> server;
  std::unique_ptr<Learner> learner;
};

// Makes an anonymous segment. Gradients are not checked for NaN; both gradient buffers are filled
// and folded.
Result<Pair> make_pair_in_process(uint64_t parameters, UpdateRuleKind rule, int threads);

// Returns the next sample of the partition that belongs to this learner alone.
inline SampleRange next_sample(const Learner& learner) {
  const auto own = static_cast<uint32_t>(learner.slot());
  const uint64_t begin = learner.pushed(own).value();
  return {.partition = own, .begin = begin, .end = begin + 1};
}

// Pushes the gradient in the learner's slot and waits until it is folded. Returns the seconds of
// both.
Result<double> push_and_fold(Learner& learner);

// Returns a name that no other run uses.
std::string segment_name();

// Runs a child that this program starts itself: bench_ps --role NAME SEGMENT ...
int play_role(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
