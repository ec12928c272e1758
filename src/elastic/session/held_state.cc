#include "elastic/session/held_state.h"

#include <cstring>
#include <utility>

#include "base/errors.h"

namespace ffdl::elastic {

HeldState::HeldState(Trainable& trainable, UserMemory& memory, ParticipantList participants)
    : trainable_(trainable),
      memory_(memory),
      participants_(participants),
      buffers_(trainable.state()),
      beginning_(participants.save()) {}

// A step without samples changes the participants' state, too.
void HeldState::advance(uint64_t history) {
  is_initial_ = false;
  label_.history = history;
  ++label_.step;
  made_ = {label_.lineage, label_.generation, label_.step};
}

bool HeldState::note_stable() {
  if (label_.step <= told_stable_) return false;
  told_stable_ = label_.step;
  return true;
}

Result<uint64_t> HeldState::hash_with_participants() const {
  return hash_of(memory_, buffers_, participants_.save());
}

void HeldState::give_up() {
  label_.holds = false;
  label_.step = label_.history = told_stable_ = 0;
}

void HeldState::overwrite() { label_.holds = is_initial_ = false; }

Status HeldState::begin_anew() {
  if (is_initial_) return {};
  FFDL_RETURN_IF_ERROR(trainable_.begin_anew());
  FFDL_RETURN_IF_ERROR(memory_.follow());
  FFDL_RETURN_IF_ERROR(participants_.restore(beginning_));
  is_initial_ = true;
  return {};
}

Status HeldState::begin_from(const Checkpoint& checkpoint) {
  // One of save_checkpoint() has none: they begin as in a new job.
  const auto& participants =
      checkpoint.participants.empty() ? beginning_ : checkpoint.participants;
  FFDL_RETURN_IF_ERROR(participants_.restore(participants).with_context(
      fmt::format("load checkpoint '{}'", checkpoint.folder)));
  label_.step = checkpoint.step;
  return {};
}

Status HeldState::end_with(const Checkpoint& checkpoint, const StateLabel& end) {
  FFDL_RETURN_IF_ERROR(participants_.restore(checkpoint.participants));
  label_.step = end.step;
  note_lineage(end.lineage);
  return {};
}

Status HeldState::receive(Communicator& communicator, const StateTransfer& label,
                          const NextDeadline& deadline) {
  std::vector<std::byte> shadow;
  std::vector<Buffer> into = buffers_;
  if (label_.holds) {
    shadow.resize(bytes_of(buffers_));
    std::byte* place = shadow.data();
    for (Buffer& buffer : into) {
      buffer.data = place;
      place += bytes_of(buffer);
    }
  } else {
    is_initial_ = false;
  }
  FFDL_ASSIGN_OR_RETURN(const auto beside,
                        receive_state(communicator, label, memory_, into, deadline));
  label_.holds = false;  // until enter(): the parts change one after the other
  FFDL_RETURN_IF_ERROR(participants_.restore(beside));
  if (!shadow.empty()) {
    const std::byte* place = shadow.data();
    FFDL_RETURN_IF_ERROR(
        memory_.visit(buffers_, Access::kWrite, [&](const Buffer& piece) -> Status {
          std::memcpy(piece.data, place, bytes_of(piece));
          place += bytes_of(piece);
          return {};
        }));
  }
  is_initial_ = false;
  return {};
}

void HeldState::enter(const World& world, const RescalePlan& plan) {
  note_lineage(world.lineage);
  label_ = {true, world.lineage, world.generation, plan.step, plan.history};
  made_ = plan.made;
  if (!world.begins_anew()) return;
  base_ = plan.base;
  base_holder_ = plan.holder;
}

std::optional<StateLabel> HeldState::state() const {
  return label_.holds && made_.lineage > 0 ? std::optional(made_) : std::nullopt;
}

void HeldState::announce(const World& world) {
  participants_.world_changed(world);
  trainable_.on_world(world);
}

// Records the lineage. The steps of another lineage have the same numbers.
void HeldState::note_lineage(uint64_t lineage) {
  if (lineage != label_.lineage) told_stable_ = 0;
  label_.lineage = lineage;
}

}  // namespace ffdl::elastic
