#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "elastic/session/rescale.h"
#include "elastic/state/state_copy.h"
#include "elastic/state/user_memory.h"
#include "elastic/step/participant_list.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/session.h"

namespace ffdl::elastic {

// The state of one member: the buffers of its model and the bytes of its participants, with their
// label.
// Threads: the session's thread; buffers() and memory() also from the task that sends the state,
// which does not change then.
class HeldState {
 public:
  // The label counts while `holds` is true.
  struct Label {
    bool holds = false;
    uint64_t lineage = 0;
    uint64_t generation = 0;  // of the last world that it was in step with
    uint64_t step = 0;
    uint64_t history = 0;  // a hash of the contents of the steps
  };

  // Requires that the arguments outlive this object. The state is the job's initial one.
  HeldState(Trainable& trainable, UserMemory& memory, ParticipantList participants);

  const Label& label() const { return label_; }
  // Returns the label that the state had with which the present lineage began, if this member was
  // there, and the member that had that state in memory.
  const StateLabel& base() const { return base_; }
  const std::string& base_holder() const { return base_holder_; }
  std::span<const Buffer> buffers() const { return buffers_; }
  UserMemory& memory() const { return memory_; }
  const ParticipantList& participants() const { return participants_; }

  // --- steps ---

  // Records one more step, after which the history has this hash.
  void advance(uint64_t history);
  // Records that the present step is stable. Returns false if that was recorded before.
  bool note_stable();
  // Reports whether this is the job's last state. note_last() returns false if that was recorded
  // before.
  bool is_last() const { return is_last_; }
  bool note_last() { return !std::exchange(is_last_, true); }

  // --- worlds ---

  // Returns the hash of the buffers, and of the participants' bytes if they are part of it.
  Result<uint64_t> hash() const { return hash_of(memory_, buffers_, {}); }
  Result<uint64_t> hash_with_participants() const;
  // Voids the label, before a lineage begins. The step is 0 until then.
  void give_up();
  // Records that the buffers no longer hold the state, or the initial one.
  void overwrite();
  void note_changed() { is_initial_ = false; }
  // Brings the initial state back. Errors: those of the trainable and the participants.
  Status begin_anew();
  // Restores the participants of a checkpoint whose buffers are loaded, and takes its step.
  Status begin_from(const Checkpoint& checkpoint);
  // Does that with the last checkpoint of a job, and takes its lineage.
  Status end_with(const Checkpoint& checkpoint, const StateLabel& end);
  // Receives the state. A state that still counts is replaced only when the new one is complete,
  // since the sender may die halfway. Errors: those of receive_state() and the participants.
  Status receive(Communicator& communicator, const StateTransfer& label,
                 const NextDeadline& deadline);
  // Labels the state as the one with which `world` begins.
  void enter(const World& world, const RescalePlan& plan);
  // Returns the label of the complete state, by the world in which its last step was made; none: it
  // holds none, or the initial state.
  std::optional<StateLabel> state() const;
  // Announces a world to participants and trainable.
  void announce(const World& world);

 private:
  void note_lineage(uint64_t lineage);

  Trainable& trainable_;
  UserMemory& memory_;
  const ParticipantList participants_;
  const std::vector<Buffer> buffers_;
  const std::vector<std::byte> beginning_;  // of the participants
  Label label_;
  StateLabel made_;           // of the last step; all 0: the initial state
  StateLabel base_;           // of the last lineage that began with this member
  std::string base_holder_;
  bool is_initial_ = true;    // the state is unchanged since open()
  bool is_last_ = false;      // it is the job's last state
  uint64_t told_stable_ = 0;  // the last step that was recorded as stable
};

}  // namespace ffdl::elastic
