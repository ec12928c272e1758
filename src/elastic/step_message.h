#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "elastic/publication.h"
#include "ffdl/step_participant.h"

namespace ffdl::elastic {

// What the session itself says with a step.
struct StepHeader {
  uint64_t step = 0;     // that it is about to make
  uint64_t samples = 0;  // that its gradients are the mean of
  uint64_t next = 0;     // the generation that it is ready to change over to; 0: none
  CheckpointWord checkpoint{};
  uint64_t is_last = 0;  // 1: there is no such step, the training is done
};
static_assert(sizeof(StepHeader) == 56);

// One member's bytes of a step: the header, then the record of each participant, each at a multiple
// of 8. And those of all members, as they come out of an all_gather.
class StepMessages {
 public:
  explicit StepMessages(std::span<StepParticipant* const> participants);

  size_t bytes() const { return stride_; }  // of one member

  // Asks the participants; the bytes stay until the next call.
  std::span<std::byte> describe(const StepHeader& header);
  // Room for those of `ranks` members.
  std::span<std::byte> receive(int ranks);

  // Of what was received:
  int ranks() const { return static_cast<int>(all_.size() / stride_); }
  StepHeader header(int rank) const;
  uint64_t samples() const;  // of all
  bool are_samples_equal() const;
  bool are_all_done() const;
  std::vector<CheckpointWord> checkpoint_words() const;
  // That all of `ranks` are ready for; none while they are not, or not for the same.
  std::optional<uint64_t> agreed_next() const;
  std::span<const std::byte> all() const { return all_; }
  // Hands the records to the participants.
  void apply(uint64_t step) const;

 private:
  const std::span<StepParticipant* const> participants_;
  std::vector<size_t> offsets_;
  size_t stride_ = 0;
  std::vector<std::byte> mine_;
  std::vector<std::byte> all_;
};

}  // namespace ffdl::elastic
