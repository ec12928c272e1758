#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ffdl/scaling/elastic_policy.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

namespace ffdl::scaling {

// The measurement of a job over some consecutive steps in one world. A StepMeasurement is a speed
// at one size; this is what policies and profiles are made from, with metrics and memory.
struct Measurement {
  uint64_t generation = 0;  // of the world
  int workers = 0;
  uint64_t step = 0;   // the last of them
  uint64_t steps = 0;  // their number
  double seconds = 0;  // their duration
  uint64_t samples = 0;
  uint64_t batch = 0;  // samples of each of the steps; 0: they differed
  // The time from a member's contribution to the averaged gradients, over that of the whole step;
  // the mean over the members. Includes waiting for slower members, but not what is hidden behind
  // computation.
  double communication_share = 0;
  uint64_t host_memory_bytes = 0;                // resident, of the member with the most
  std::map<std::string, MetricValue> metrics{};  // sums over the members, means over the steps

  Revision revision = 0;  // of the record in the store; 0: it is not from there

  bool operator==(const Measurement&) const = default;
};

// Reads a job's last measurement and changes nothing.
// Errors: kNotFound (nothing was measured yet), kCorrupt, and those of Store.
Result<Measurement> read_measurement(Store& store, std::string_view job);
// Waits for a measurement newer than `after`. Blocks: until `deadline`. Errors: kTimeout, and those
// of read_measurement().
Result<Measurement> wait_measurement(Store& store, std::string_view job, Revision after,
                                     Time deadline);

}  // namespace ffdl::scaling
