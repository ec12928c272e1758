#include "elastic/checkpoint/decide_checkpoint.h"

#include <algorithm>

namespace ffdl::elastic {

bool should_take(std::span<const CheckpointWord> words) {
  const auto wants = [](const CheckpointWord& word) { return word.wants != 0; };
  const auto is_free = [](const CheckpointWord& word) { return word.pending == 0; };
  return std::any_of(words.begin(), words.end(), wants) &&
         std::all_of(words.begin(), words.end(), is_free);
}

CheckpointAction decide_checkpoint(const CheckpointFacts& facts) {
  if (facts.is_published) return CheckpointAction::kDone;
  if (facts.is_lineage_over || facts.is_given_up) return CheckpointAction::kDrop;
  bool is_complete = true;
  bool is_first = true;
  for (size_t i = 0; i < facts.authors.size(); ++i) {
    const CheckpointAuthor& author = facts.authors[i];
    if (!author.has_shard && !author.is_here) return CheckpointAction::kDrop;
    is_complete = is_complete && author.has_shard;
    if (i < static_cast<size_t>(facts.rank) && author.is_member) is_first = false;
  }
  const bool is_mine = is_first && facts.authors[static_cast<size_t>(facts.rank)].is_member;
  const bool is_due = is_mine && is_complete && facts.is_stable;
  return is_due ? CheckpointAction::kPublish : CheckpointAction::kWait;
}

}  // namespace ffdl::elastic
