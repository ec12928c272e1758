#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/elastic_policy.h"
#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl {

// A job over some steps that followed each other in one world.
struct Measurement {
  uint64_t generation = 0;  // of the world
  int workers = 0;
  uint64_t step = 0;   // the last of them
  uint64_t steps = 0;  // how many
  double seconds = 0;  // that they took
  uint64_t samples = 0;
  uint64_t batch = 0;  // samples of each of the steps; 0: they differed
  // The mean over the members: from a member's contribution to the averaged gradients, over the
  // whole step. What was hidden behind computation is not in it, waiting for slower members is.
  double communication_share = 0;
  uint64_t host_memory_bytes = 0;                // resident, of the member that has most
  std::map<std::string, MetricValue> metrics{};  // sums over the members, means over the steps

  bool operator==(const Measurement&) const = default;
};

struct StepMeterOptions {
  std::string job = "job";
  uint64_t steps = 10;  // of one measurement
  // What the application says of itself, by name; the same names at all members. Asked once a step,
  // inside the session's end_step(), which they may not call. NaN: this member says nothing, as
  // where a queue is one for all, and one member tells its length.
  std::map<std::string, std::function<double()>> metrics{};
};

// Measures a session's steps (step_participant.h), and lets others know: rank 0 puts each
// measurement into the job's store, in the place of the one before it. It is what policies
// (policy_follower.h) and profiles (job_profile.h) go by. Beside it lies how fast the job has been
// with each size and batch that it has had (publish_speeds, job_link.h), by which the autoscaler
// plans; who comes to rank 0 goes on from that, and it ends with the job. The first step of each
// world is left out, as it waits for those who come, and so are, of speeds, measurements over steps
// of several batches.
// Threads: one at a time, that of the session. At rank 0 one task of the runtime, which writes.
// Owns: the record of the speeds, under a lease. `store` and `runtime` must outlive it.
// Blocks: never; the destructor until the task's present call to the store returns. What the store
//         cannot do is logged, and the next measurement is tried.
// Cost: 16 bytes of each member a step, and 8 for each metric.
class FFDL_API StepMeter final : public StepParticipant {
 public:
  // Errors: kInvalidArgument (no steps, a metric without a name or a function).
  static Result<std::unique_ptr<StepMeter>> create(Store& store, const StepMeterOptions& options,
                                                   Runtime& runtime = system_runtime());
  ~StepMeter() override;
  StepMeter(const StepMeter&) = delete;
  StepMeter& operator=(const StepMeter&) = delete;

  size_t record_bytes() const override;
  void describe(std::span<std::byte> record) override;
  void averaged() override;
  void applied(uint64_t step, const StepRecords& records) override;
  void world_changed(const World& world) override;
  void stable(uint64_t step) override;
  std::vector<std::byte> save() const override;
  Status restore(std::span<const std::byte> bytes) override;

 private:
  class Impl;
  explicit StepMeter(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// What a job's meter told last, and since when: `revision` is that of the record. Only reads.
// Errors: kNotFound (no meter has told anything), kCorrupt, and those of Store.
struct ReadMeasurement {
  Measurement measurement{};
  Revision revision = 0;
};
FFDL_API Result<ReadMeasurement> read_measurement(Store& store, std::string_view job);
// Blocks: until there is one newer than `after`, or `deadline`. Errors: kTimeout, and the above.
FFDL_API Result<ReadMeasurement> wait_measurement(Store& store, std::string_view job,
                                                  Revision after, Time deadline);

}  // namespace ffdl
