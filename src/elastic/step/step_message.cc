#include "elastic/step/step_message.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace ffdl::elastic {

StepMessages::StepMessages(std::span<StepParticipant* const> participants)
    : participants_(participants), stride_(sizeof(StepHeader)) {
  for (const StepParticipant* participant : participants_) {
    offsets_.push_back(stride_);
    stride_ += (participant->record_bytes() + 7) / 8 * 8;
  }
}

std::span<std::byte> StepMessages::describe(const StepHeader& header) {
  StepHeader sent = header;
  sent.bytes = stride_;
  mine_.assign(stride_, std::byte{});
  std::memcpy(mine_.data(), &sent, sizeof sent);
  for (size_t i = 0; i < participants_.size(); ++i) {
    participants_[i]->write_record(
        std::span(mine_).subspan(offsets_[i], participants_[i]->record_bytes()));
  }
  return mine_;
}

std::span<std::byte> StepMessages::receive(int ranks) {
  FFDL_CHECK(ranks > 0, "a world has members");
  all_.assign(stride_ * static_cast<size_t>(ranks), std::byte{});
  return all_;
}

StepHeader StepMessages::header(int rank) const {
  FFDL_CHECK(rank >= 0 && rank < ranks(), "only members of the world have sent a message");
  StepHeader header;
  std::memcpy(&header, all_.data() + stride_ * static_cast<size_t>(rank), sizeof header);
  return header;
}

uint64_t StepMessages::samples() const {
  uint64_t sum = 0;
  for (int rank = 0; rank < ranks(); ++rank) sum += header(rank).samples;
  return sum;
}

bool StepMessages::are_samples_equal() const {
  for (int rank = 1; rank < ranks(); ++rank) {
    if (header(rank).samples != header(0).samples) return false;
  }
  return true;
}

std::vector<CheckpointWord> StepMessages::checkpoint_words() const {
  std::vector<CheckpointWord> words;
  for (int rank = 0; rank < ranks(); ++rank) words.push_back(header(rank).checkpoint);
  return words;
}

bool StepMessages::are_all_done() const {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (header(rank).kind != StepKind::kNone) return false;
  }
  return true;
}

bool StepMessages::is_over() const {
  bool is_done = false;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (header(rank).kind == StepKind::kNext) return false;
    is_done = is_done || header(rank).kind == StepKind::kNone;
  }
  return is_done;
}

std::optional<uint64_t> StepMessages::agreed_next() const {
  const uint64_t first = header(0).next;
  for (int rank = 1; rank < ranks(); ++rank) {
    if (header(rank).next != first) return std::nullopt;
  }
  return first == 0 ? std::nullopt : std::optional(first);
}

void StepMessages::apply(uint64_t step) const {
  std::vector<uint64_t> samples;
  for (int rank = 0; rank < ranks(); ++rank) samples.push_back(header(rank).samples);
  for (size_t i = 0; i < participants_.size(); ++i) {
    participants_[i]->applied(
        step, StepRecords(std::span(all_).subspan(offsets_[i]), participants_[i]->record_bytes(),
                          stride_, samples));
  }
}

}  // namespace ffdl::elastic
