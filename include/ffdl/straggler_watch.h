#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/types.h"

namespace ffdl {

// A member for which the others wait.
struct Straggler {
  Member member{};     // without its address
  double factor = 0;   // its time for a sample over the median of all: the mean of `steps` steps
  uint64_t steps = 0;  // that it has been so slow, without a break
  uint64_t step = 0;   // the last of them
};

struct StragglerWatchOptions {
  double factor = 1.2;  // slow is who needs so many times the median
  uint64_t steps = 10;  // in so many steps one after another
  // Told once of each, when it has been slow for `steps` steps, and again if it was not slow in
  // between. Every member is told the same: let one act, such as rank 0, and replace it by
  // migrate_worker() (supervisor.h). Threads: called inside the session's end_step(); it may not
  // call the session.
  std::function<void(const Straggler&)> on_straggler{};
};

// Finds members that compute slower than the others: a participant of a session's steps
// (step_participant.h). What counts is the time from the end of a step to this member's
// contribution to the next (its first bucket, where it calls begin_average()), for each of its
// samples; who has none is not looked at. Waiting for others does not count, waiting for data does.
// A change of the world begins anew.
// Threads: one at a time, that of the session. Blocks: never. Cost: 8 bytes of each member a step.
class FFDL_API StragglerWatch final : public StepParticipant {
 public:
  // `runtime` must outlive it. Errors: kInvalidArgument (a factor of 1 or less, no steps).
  static Result<std::unique_ptr<StragglerWatch>> create(const StragglerWatchOptions& options = {},
                                                        Runtime& runtime = system_runtime());
  ~StragglerWatch() override;
  StragglerWatch(const StragglerWatch&) = delete;
  StragglerWatch& operator=(const StragglerWatch&) = delete;

  // Those who are slow now, in the order of ranks.
  std::vector<Straggler> stragglers() const;

  size_t record_bytes() const override;
  void describe(std::span<std::byte> record) override;
  void applied(uint64_t step, const StepRecords& records) override;
  void world_changed(const World& world) override;
  void stable(uint64_t step) override;
  std::vector<std::byte> save() const override;
  Status restore(std::span<const std::byte> bytes) override;

 private:
  class Impl;
  explicit StragglerWatch(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
