#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "elastic/checkpoint/decide_checkpoint.h"
#include "ffdl/step_participant.h"

namespace ffdl::elastic {

// The part of a member in the step that it contributes to.
enum class StepKind : uint64_t {
  kNext,      // applies it
  kNone,      // ends: there is no such step, the training is done
  kNewcomer,  // applies it: it has just joined, and has no samples
};

// The session's own part of a step message.
struct StepHeader {
  uint64_t step = 0;     // the step that it is about to make
  uint64_t samples = 0;  // number of samples in its mean gradient
  uint64_t next = 0;     // generation that it is ready to enter; 0: none
  CheckpointWord checkpoint{};
  StepKind kind = StepKind::kNext;
  uint64_t generation = 0;  // of the world of this step
  uint64_t bytes = 0;       // size of a member's message, set by StepMessages::describe()
};
static_assert(sizeof(StepHeader) == 72, "a change needs another base::kProtocolVersion");

// The message of one member for a step: the header, then the record of each participant, each at a
// multiple of 8. After an all_gather, it holds the messages of all members.
class StepMessages {
 public:
  explicit StepMessages(std::span<StepParticipant* const> participants);

  size_t bytes() const { return stride_; }  // of one member

  // Collects the participants' records. The bytes stay valid until the next call.
  std::span<std::byte> describe(const StepHeader& header);
  // Returns memory for the messages of `ranks` members.
  std::span<std::byte> receive(int ranks);

  // Access to the received messages:
  int ranks() const { return static_cast<int>(all_.size() / stride_); }
  StepHeader header(int rank) const;
  uint64_t samples() const;  // of all members
  bool are_samples_equal() const;
  bool are_all_done() const;  // each one has kNone
  bool is_over() const;       // one has kNone, and no other one continues
  std::vector<CheckpointWord> checkpoint_words() const;
  // Returns the generation that all members are ready for; nothing while they are not, or differ.
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
