#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ffdl/types.h"

// The time that a change of the world keeps a worker from its training. Pure; benchmarks/README.md
// describes it.
namespace ffdl::bench {

// One step of a worker, in order of time.
struct StepTime {
  Time end;
  double in_session_s = 0;  // inside end_step()
  uint64_t generation = 0;  // the world in which the step began
  int members = 0;          // of that world

  bool operator==(const StepTime&) const = default;
};

// Convert steps to one line of text, and back.
std::string write_steps(const std::vector<StepTime>& steps);
std::vector<StepTime> read_steps(const std::string& line);

// The number of steps whose mean is a normal step, and of steps after a switch that still count as
// its pause.
struct PauseRule {
  int undisturbed = 50;
  int after = 10;

  // Returns the steps that a world must have seen before it may change again.
  int steps_of_a_world() const { return 1 + after + undisturbed; }
};

// The time in excess of normal steps of the world that a step was in.
struct Pause {
  double stop_ms = 0;   // of the worst step
  double total_ms = 0;  // of all
};

// Measures from `request` until `after` steps after the last change of the world. Empty if there
// were too few steps before or after it.
std::optional<Pause> pause_after(std::span<const StepTime> steps, Time request,
                                 const PauseRule& rule);

// Measures as many steps without an event: the first of the last undisturbed steps against the
// others.
std::optional<Pause> pause_of_nothing(std::span<const StepTime> steps, const PauseRule& rule);

}  // namespace ffdl::bench
