#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

// What one participant said at each member of a step, in the order of ranks: as many bytes of each.
// Beside them how many samples the gradients of each were the mean of, where that is told.
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

// What is committed with a step of a session (session.h): a few bytes of each member travel with
// the gradients, and each member that applies the sum is told those of all. What a participant
// keeps of them is part of the state that members hold in common: it changes in applied() and
// world_changed() only, by their arguments alone (but for World::rank), so that it is equal at all.
// Threads: the session's calls come on the thread that calls it, one at a time.
class FFDL_API StepParticipant {
 public:
  virtual ~StepParticipant() = default;

  // The bytes of one record: the same at all members, and for life.
  virtual size_t record_bytes() const = 0;
  // What this member says with the step that it is about to contribute to: before its first
  // gradient is averaged. Asked again when the step is to be repeated.
  virtual void describe(std::span<std::byte> record) = 0;
  // All have contributed: the gradients hold their mean, and are about to be applied. Not called
  // for a step without samples.
  virtual void averaged() {}
  // The step was applied here. It may be taken back once, by restore(), until it is stable.
  virtual void applied(uint64_t step, const StepRecords& records) = 0;
  // From here on the members are these.
  virtual void world_changed(const World& world) = 0;
  // All members of a world have applied `step` and all before it: this is never taken back. What
  // shows outside the process waits for it.
  virtual void stable(uint64_t step) = 0;

  // Whether it looks at the gradients in describe(): a session that is given them one micro-batch
  // at a time, or averages them in buckets, has not all to show, and refuses such a participant.
  virtual bool reads_gradients() const { return false; }
  // If so: whether these may lie in a GPU's memory.
  virtual bool reads_gradients_on_device() const { return false; }
  // Not ok: it could not do its part, and this member's session ends with that error. Asked after
  // averaged().
  virtual Status standing() const { return {}; }

  // After world_changed(): whether what this member has computed for its present step, and not yet
  // contributed, is still what it should contribute. False: the session does not repeat the step by
  // itself, it says kRetryStep.
  virtual bool is_contribution_due() const { return true; }

  // The state as bytes, and back. Errors of restore: kCorrupt; the state is then as it was.
  virtual std::vector<std::byte> save() const = 0;
  virtual Status restore(std::span<const std::byte> bytes) = 0;
};

}  // namespace ffdl
