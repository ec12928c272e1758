#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ffdl::scaling {

struct SlowRules {
  double factor = 1.2;
  uint64_t steps = 10;
};

// Counts for how long one member has been slow without a break.
struct SlowRun {
  uint64_t steps = 0;
  double factors = 0;  // the sum over these steps

  double mean_factor() const { return factors / static_cast<double>(steps); }
  bool is_straggler(const SlowRules& rules) const { return steps >= rules.steps; }
};

// The time that a member needed in one step.
struct MemberTime {
  uint64_t samples = 0;  // 0: it is not compared
  double seconds = 0;
};

// Adds one step of a world: `runs` are those of its members, in the order of ranks. The median is
// that of times for one sample, the lower one of two, so that of two members one can be slow. A
// member without samples keeps its run. With fewer than two members with samples all runs stay as
// they are.
void add_step(const SlowRules& rules, std::span<const MemberTime> times, std::span<SlowRun> runs);

}  // namespace ffdl::scaling
