#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ffdl/step_meter.h"

namespace ffdl::steer {

// What a member says with each step, before the values of its metrics.
struct MeterWord {
  double communication_s = 0;  // of its step before; NaN: nothing
  uint64_t host_memory_bytes = 0;
};

// Adds the steps of a world up to measurements of `steps` steps each. Time is given, in seconds.
class MeasuredSteps {
 public:
  MeasuredSteps(uint64_t steps, std::vector<std::string> metrics)
      : steps_(steps), metrics_(std::move(metrics)) {}

  // A world begins; what was not told of the one before is forgotten.
  void start_anew(uint64_t generation);
  // No step was begun with begin(): the next one to end is not to be counted.
  bool is_empty() const { return !began_s_; }
  // From here on steps are counted.
  void begin(double now_s);
  // A step has ended. A measurement, if it was the last of one: the next has begun then.
  std::optional<Measurement> add(uint64_t step, const StepRecords& records, double now_s);

 private:
  // What is added up beside a measurement's own sums.
  struct Mean {
    double sum = 0;
    uint64_t count = 0;
  };

  const uint64_t steps_;
  const std::vector<std::string> metrics_;
  std::optional<double> began_s_;
  Measurement sums_;
  Mean communication_;          // over the members that said so, of all steps
  std::vector<Mean> of_steps_;  // of each metric: its sums in the steps where anyone said so
};

}  // namespace ffdl::steer
