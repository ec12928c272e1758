#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

// The records of one participant at all members of a step, by rank; all have the same size. They
// may also hold the number of samples that each member's gradients are the mean of.
class StepRecords {
 public:
  StepRecords(std::span<const std::byte> all, size_t record_bytes, size_t stride,
              std::span<const uint64_t> samples = {})
      : all_(all), record_bytes_(record_bytes), stride_(stride), samples_(samples) {}

  int size() const { return static_cast<int>((all_.size() + stride_ - 1) / stride_); }
  std::span<const std::byte> of(int rank) const {
    return all_.subspan(static_cast<size_t>(rank) * stride_, record_bytes_);
  }
  uint64_t samples(int rank) const { return samples_[static_cast<size_t>(rank)]; }

 private:
  std::span<const std::byte>
      all_;  // begins with the record of rank 0, may end with that of the last
  size_t record_bytes_;
  size_t stride_;  // from one rank's record to the next one's
  std::span<const uint64_t> samples_;
};

// An object whose data is committed with each step of a session (session.h). A few bytes of each
// member travel with the gradients, and each member that applies the mean receives those of all. A
// participant's data is part of the state that members hold in common, so it must be equal at all
// members. It changes in applied() and world_changed() only, and depends on their arguments alone
// (except World::rank).
// Threads: the thread that calls the session calls all methods, one at a time.
class FFDL_API StepParticipant {
 public:
  virtual ~StepParticipant() = default;

  // Returns the bytes of one record: the same at all members, constant for life.
  virtual size_t record_bytes() const = 0;
  // Writes this member's record for the step that it is about to contribute to. Called before its
  // first gradient is averaged, and again when the step is repeated.
  virtual void write_record(std::span<std::byte> record) = 0;
  // Runs when all members have contributed: the gradients hold their mean and are about to be
  // applied. Not called for a step without samples.
  virtual void averaged() {}
  // Runs when the step was applied here. Until it is stable, restore() may undo it once.
  virtual void applied(uint64_t step, const StepRecords& records) = 0;
  // Runs when the members have changed, before the next step.
  virtual void world_changed(const World& world) = 0;
  // Runs when all members of a world have applied `step` and all before it: it can no longer be
  // undone. Effects outside the process must wait for this.
  virtual void stable(uint64_t step) = 0;

  // Returns true if write_record() or averaged() reads the gradients. A session that receives them
  // by micro-batches, or averages them in buckets, refuses such a participant.
  virtual bool reads_gradients() const { return false; }
  // Returns true if the gradients that it reads may be in a GPU's memory.
  virtual bool reads_gradients_on_device() const { return false; }
  // Returns an error if the participant has failed; this member's session then ends with it. Called
  // after averaged().
  virtual Status life_status() const { return {}; }

  // Returns true if the contribution that this member has computed for its present step, but not
  // yet contributed, is still the right one after world_changed(). False: end_step() returns
  // kRetryStep, as the session cannot repeat the step itself.
  virtual bool is_contribution_due() const { return true; }

  // Returns the number of samples in this member's contribution to its present step, if this
  // participant knows it, as a ledger does. The first participant of a session that knows decides
  // the number that Session::end_step() accepts.
  virtual std::optional<uint64_t> step_samples() const { return std::nullopt; }

  // Returns the state as bytes. restore() sets it from them. Errors of restore(): kCorrupt,
  // kInvalidArgument (of a participant with other options); the state is then unchanged.
  virtual std::vector<std::byte> save() const = 0;
  virtual Status restore(std::span<const std::byte> bytes) = 0;
};

}  // namespace ffdl
