#pragma once

#include <chrono>
#include <cstdint>

namespace ffdl {

// A point in time of the monotonic clock, and a difference of two. In a simulation the Runtime
// makes them up; nothing compares them with a wall clock.
using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

// The deadline that never comes; a caller must write it out to wait without a bound.
inline constexpr Time kNoDeadline = Time::max();

// A deadline from now on, for callers without a Runtime: attach(name, deadline_in(5s)).
inline Time deadline_in(Duration wait) { return std::chrono::steady_clock::now() + wait; }

// Samples [begin, end) of one partition of a data set. Positions of a partition only grow: a second
// epoch goes on counting where the first ended, so a position names one use of one sample.
// An empty range (begin == end) says that a gradient names no samples.
struct SampleRange {
  uint32_t partition = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  bool operator==(const SampleRange&) const = default;
};

}  // namespace ffdl
