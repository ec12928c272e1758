#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/store.h"
#include "ffdl/straggler_watch.h"
#include "ffdl/types.h"

namespace ffdl {

struct StragglerReplacementOptions {
  std::string job = "job";
  StragglerWatchOptions watch{};  // its `on_straggler` is told at all members, as without this
};

// A StragglerWatch (straggler_watch.h) that also sees to it that another worker takes a straggler's
// place: a participant of a session's steps, in place of the watch. The member of rank 0 asks for
// it as `ffdl migrate` does, one straggler at a time; the others train on, and the job stays as
// large as it is. It needs a worker that is idle: fewer wanted than the MAX of --workers MIN:MAX.
// Where there is none that is logged, and the straggler stays. While another change is under way it
// waits.
// Threads: one at a time, that of the session. At rank 0 one task of the runtime, which asks.
// Owns: its watch. `store` and `runtime` must outlive it.
// Blocks: never; the destructor until the task's present call to the store returns.
// Cost: that of the watch.
class FFDL_API StragglerReplacement final : public StepParticipant {
 public:
  // Errors: those of StragglerWatch::create().
  static Result<std::unique_ptr<StragglerReplacement>> create(
      Store& store, const StragglerReplacementOptions& options,
      Runtime& runtime = system_runtime());
  ~StragglerReplacement() override;
  StragglerReplacement(const StragglerReplacement&) = delete;
  StragglerReplacement& operator=(const StragglerReplacement&) = delete;

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
  explicit StragglerReplacement(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
