#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ffdl/step_participant.h"

namespace ffdl::elastic {

// The participants of a session, called one after the other in the order of its options.
// Threads: one at a time.
class ParticipantList {
 public:
  // Requires that the participants, and the array of pointers to them, outlive this object.
  explicit ParticipantList(std::span<StepParticipant* const> all) : all_(all) {}

  std::span<StepParticipant* const> all() const { return all_; }

  // Returns the samples of the present step from the first participant that knows them.
  std::optional<uint64_t> step_samples() const;
  // Reports whether the same gradients may be given once more.
  bool is_contribution_due() const;
  // Reports whether no participant has ended the session.
  bool are_alive() const;

  // Announces averaged gradients. Errors: the first end of a participant's life.
  Status averaged() const;
  void stable(uint64_t step) const;
  void world_changed(const World& world) const;

  // Returns the bytes of all participants, each with its size.
  std::vector<std::byte> save() const;
  // Restores what save() returned. Errors: those of the participants, kInternal (too few bytes).
  Status restore(std::span<const std::byte> bytes) const;

 private:
  std::span<StepParticipant* const> all_;
};

}  // namespace ffdl::elastic
