#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ffdl/types.h"

// How long a change of the world kept a worker from its training. Pure; benchmarks/README.md says
// it in words.
namespace ffdl::bench {

// One step of a worker, in the order of time.
struct StepTime {
  Time end;
  double in_session_s = 0;  // inside end_step()
  uint64_t generation = 0;  // of the world that the step began in
  int members = 0;          // of that world

  bool operator==(const StepTime&) const = default;
};

// Steps as one line of text, and back.
std::string write_steps(const std::vector<StepTime>& steps);
std::vector<StepTime> read_steps(const std::string& line);

// Steps that a normal one is the mean of, and steps after a switch that still count as its pause.
struct PauseRule {
  int undisturbed = 50;
  int after = 10;

  // Steps that a world must have seen before it may change again.
  int steps_of_a_world() const { return 1 + after + undisturbed; }
};

// What exceeds normal steps of the world that a step was in.
struct Pause {
  double stop_ms = 0;   // of the worst step
  double total_ms = 0;  // of all
};

// From `request` until `after` steps after the last change of the world. Empty: there were too few
// steps before or after it.
std::optional<Pause> pause_after(std::span<const StepTime> steps, Time request,
                                 const PauseRule& rule);

// The same of as many steps without an event: the first of the last undisturbed ones, against the
// others.
std::optional<Pause> pause_of_nothing(std::span<const StepTime> steps, const PauseRule& rule);

}  // namespace ffdl::bench
