#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "benchmarks/harness/statistics.h"
#include "ffdl/status.h"

namespace ffdl::bench {

// One turn of one contender: does a fixed piece of work and returns the seconds that count.
using Turn = std::function<Result<double>()>;

// Returns true if the subject begins the pair. Consecutive turns are disturbed alike, so the order
// alternates: AB BA AB BA.
constexpr bool subject_begins(int pair) { return pair % 2 == 0; }

// Runs `warm_up` pairs that do not count, then `count` pairs that do. `done` receives the completed
// share of the work. The first turn that fails ends the run.
Result<std::vector<PairTimes>> run_pairs(const Turn& subject, const Turn& limit, int count,
                                         int warm_up, const std::function<void(double)>& done);

template <class Work>
double seconds_of(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace ffdl::bench
