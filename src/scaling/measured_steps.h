#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ffdl/step_participant.h"
#include "scaling/measurement.h"

namespace ffdl::scaling {

// A member's report in each step, before the values of its metrics.
struct MeterWord {
  double communication_s = 0;  // seconds of its last step; NaN: not known
  uint64_t host_memory_bytes = 0;
};
static_assert(sizeof(MeterWord) == 16, "a change needs another base::kProtocolVersion");

// Adds the steps of a world up to measurements of `steps` steps each. Times are arguments, in
// seconds.
class MeasuredSteps {
 public:
  MeasuredSteps(uint64_t steps, std::vector<std::string> metrics)
      : steps_(steps), metrics_(std::move(metrics)) {}

  // Starts a new world; the unfinished measurement of the last one is dropped.
  void start_anew(uint64_t generation);
  // Returns true before begin(): the next step to end is not counted.
  bool is_empty() const { return !began_s_; }
  // Starts a measurement: later steps are counted.
  void begin(double now_s);
  // Adds a step that has ended. Returns the measurement if the step was its last; the next one has
  // begun then.
  std::optional<Measurement> add(uint64_t step, const StepRecords& records, double now_s);

 private:
  // Sums for a mean, beside a measurement's own sums.
  struct Mean {
    double sum = 0;
    uint64_t count = 0;
  };

  const uint64_t steps_;
  const std::vector<std::string> metrics_;
  std::optional<double> began_s_;
  Measurement sums_;
  Mean communication_;          // mean over the members that reported it, of all steps
  std::vector<Mean> of_steps_;  // each metric's sums in the steps with a report
};

}  // namespace ffdl::scaling
