#include "elastic/step/participant_list.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"

namespace ffdl::elastic {

std::optional<uint64_t> ParticipantList::step_samples() const {
  for (const StepParticipant* participant : all_) {
    if (const auto known = participant->step_samples()) return known;
  }
  return std::nullopt;
}

bool ParticipantList::is_contribution_due() const {
  return std::all_of(all_.begin(), all_.end(),
                     [](const StepParticipant* one) { return one->is_contribution_due(); });
}

bool ParticipantList::are_alive() const {
  return std::all_of(all_.begin(), all_.end(),
                     [](const StepParticipant* one) { return one->life_status().ok(); });
}

Status ParticipantList::averaged() const {
  for (StepParticipant* participant : all_) {
    participant->averaged();
    FFDL_RETURN_IF_ERROR(participant->life_status());
  }
  return {};
}

void ParticipantList::stable(uint64_t step) const {
  for (StepParticipant* participant : all_) participant->stable(step);
}

void ParticipantList::world_changed(const World& world) const {
  for (StepParticipant* participant : all_) participant->world_changed(world);
}

std::vector<std::byte> ParticipantList::save() const {
  std::vector<std::byte> all;
  for (const StepParticipant* participant : all_) {
    const std::vector<std::byte> one = participant->save();
    const uint64_t bytes = one.size();
    const auto* size = reinterpret_cast<const std::byte*>(&bytes);
    all.insert(all.end(), size, size + sizeof bytes);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

Status ParticipantList::restore(std::span<const std::byte> bytes) const {
  for (StepParticipant* participant : all_) {
    uint64_t size = 0;
    if (bytes.size() >= sizeof size) {
      std::memcpy(&size, bytes.data(), sizeof size);
      bytes = bytes.subspan(sizeof size);
    }
    if (bytes.size() < size) {
      return base::make_error(StatusCode::kInternal, "restore the participants: too few bytes");
    }
    FFDL_RETURN_IF_ERROR(participant->restore(bytes.first(size)));
    bytes = bytes.subspan(size);
  }
  return {};
}

}  // namespace ffdl::elastic
