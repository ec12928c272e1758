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

// The records that one participant wrote for a step at all members, in the order of the ranks. All
// have the same size. May also contain the number of samples in each member's gradients.
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
      all_;  // begins with the record of rank 0, may end right after the last rank's record
  size_t record_bytes_;
  size_t stride_;  // bytes from one rank's record to the next rank's
  std::span<const uint64_t> samples_;
};

// An object whose data is committed with each step of a session (session.h). Each member sends a
// record of a few bytes with its gradients. Each member that applies the mean receives all records.
// A participant's data is part of the state, so it must be equal at all members. It may change only
// in applied() and world_changed(), and only by their arguments (except World::rank).
// Threads: the thread that calls the session calls all methods, one at a time.
class FFDL_API StepParticipant {
 public:
  virtual ~StepParticipant() = default;

  // Returns the size of one record in bytes. It is equal at all members, and constant.
  virtual size_t record_bytes() const = 0;
  // Writes this member's record for the next step. Called before the step's first gradient is
  // averaged, and again if the step is repeated.
  virtual void write_record(std::span<std::byte> record) = 0;
  // Runs when the gradients hold the mean over all members, before they are applied. Not called for
  // a step without samples.
  virtual void averaged() {}
  // Runs when this member has applied `step`. Until `step` is stable, restore() may undo it once.
  virtual void applied(uint64_t step, const StepRecords& records) = 0;
  // Runs when the members have changed, before the next step.
  virtual void world_changed(const World& world) = 0;
  // Runs when all members of a world have applied `step` and all earlier steps. These steps can no
  // longer be undone. Delay effects outside the process until then. Where a lineage begins
  // (World::begins_anew), its last earlier step is reported once more.
  virtual void stable(uint64_t step) = 0;

  // Returns true if write_record() or averaged() reads the gradients. Session::open() refuses such
  // a participant if micro_batch_shares or bucket_bytes is set.
  virtual bool reads_gradients() const { return false; }
  // Returns true if this participant can read gradients in a GPU's memory.
  virtual bool reads_gradients_on_device() const { return false; }
  // Returns an error if the participant has failed. This member's session then ends with that
  // error. Called after averaged().
  virtual Status life_status() const { return {}; }

  // Returns true if the gradients that this member computed for its present step are still due
  // after world_changed(). The session can then repeat the step itself. False: end_step() returns
  // kRetryStep.
  virtual bool is_contribution_due() const { return true; }

  // Returns the number of samples of this member in its present step, if this participant knows the
  // number, as a ledger does. Session::end_step() accepts only the number of the first participant
  // that knows it, or 0.
  virtual std::optional<uint64_t> step_samples() const { return std::nullopt; }

  // Returns the participant's data as bytes. restore() sets the data from such bytes. Errors of
  // restore(): kCorrupt, kInvalidArgument (from other options); the data is then unchanged.
  virtual std::vector<std::byte> save() const = 0;
  virtual Status restore(std::span<const std::byte> bytes) = 0;
};

}  // namespace ffdl
