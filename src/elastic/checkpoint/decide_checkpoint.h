#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Decides when all members of a world take a checkpoint, and which of them publishes it.
namespace ffdl::elastic {

// The word about checkpoints that a member sends with each step.
struct CheckpointWord {
  uint64_t wants = 0;      // 1: one shall be taken after this step
  uint64_t pending = 0;    // the step of the last one that it took, while undecided
  uint64_t published = 0;  // the step of the last one that it saw published
};
static_assert(sizeof(CheckpointWord) == 24, "a change needs another base::kProtocolVersion");

// Returns true if a member wants a checkpoint after this step, and no earlier one is pending. All
// members have the same words, and so decide alike.
bool should_take(std::span<const CheckpointWord> words);

// The next action for a checkpoint that this member has taken.
enum class CheckpointAction { kWait, kPublish, kDrop, kDone };

// A member that took the checkpoint; authors are ordered by rank.
struct CheckpointAuthor {
  bool is_here = true;     // its life has not ended
  bool is_member = true;   // and it is in the newest world
  bool has_shard = false;  // its share is on the disk
};

struct CheckpointFacts {
  int rank = 0;  // the rank of this member among the authors
  std::vector<CheckpointAuthor> authors{};
  bool is_stable = false;        // the step is stable
  bool is_published = false;     // the record of the world names it, or a newer one
  bool is_lineage_over = false;  // the job has begun a new lineage since
  bool is_given_up = false;      // an author reports that it has none in progress
};

// Returns the next action. The first author that is a member publishes it once all shards are on
// the disk and the step is stable. It is dropped when a shard will never be written.
CheckpointAction decide_checkpoint(const CheckpointFacts& facts);

}  // namespace ffdl::elastic
