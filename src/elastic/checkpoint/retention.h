#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elastic/checkpoint/manifest.h"

namespace ffdl::elastic {

// A folder with the name of a checkpoint.
struct StoredCheckpoint {
  std::string folder;  // its name without a path
  CheckpointLabel label;
  std::optional<uint64_t> sequence;  // of its publication; nothing: never published
  std::optional<double> metric;
};

struct Retention {
  std::string job;
  std::string newest;  // the one that the record of the world points to: always stays
  int keep_last = 1;   // number of the newest to keep, including that one
  int keep_best = 0;   // number of the best by metric to keep besides those
};

// Returns the checkpoints of this job to remove. They were published before the newest, and are
// neither among the last nor the best. Unpublished ones that are older than the newest are removed
// too: no member can be writing them.
std::vector<std::string> choose_removals(std::span<const StoredCheckpoint> stored,
                                         const Retention& retention);

}  // namespace ffdl::elastic
