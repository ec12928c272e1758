#pragma once

#include <cstdint>
#include <span>
#include <vector>

// When all members of a world take a checkpoint, and which of them makes it count.
namespace ffdl::elastic {

// What a member says about checkpoints with each step.
struct CheckpointWord {
  uint64_t wants = 0;      // 1: one shall be taken after this step
  uint64_t pending = 0;    // the step of the one that it took last, while nothing has come of it
  uint64_t published = 0;  // the step of the last one that it saw published
};
static_assert(sizeof(CheckpointWord) == 24);

// One is taken after this step if somebody wants it, and all have done with the one before: all
// members see the same words, and so decide alike.
bool should_take(std::span<const CheckpointWord> words);

// What becomes of a checkpoint that this member has taken.
enum class CheckpointAction { kWait, kPublish, kDrop, kDone };

// Of the members that took it, in the order of their ranks.
struct CheckpointAuthor {
  bool is_here = true;     // its life has not ended
  bool is_member = true;   // and it is in the newest world
  bool has_shard = false;  // its share is on the disk
};

struct CheckpointFacts {
  int rank = 0;  // of this member among the authors
  std::vector<CheckpointAuthor> authors{};
  bool is_stable = false;        // the step is
  bool is_published = false;     // the record names it, or a newer one
  bool is_lineage_over = false;  // the job has begun anew since
  bool is_given_up = false;      // an author says that it has none under way
};

// The first author that is a member publishes it once all shards are on the disk and the step is
// stable. It is dropped when a shard will never come.
CheckpointAction decide_checkpoint(const CheckpointFacts& facts);

}  // namespace ffdl::elastic
