#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elastic/manifest.h"

namespace ffdl::elastic {

// A folder that has the name of a checkpoint.
struct StoredCheckpoint {
  std::string folder;  // its name alone
  CheckpointLabel label;
  std::optional<uint64_t> sequence;  // of its publication; nothing: it never was
  std::optional<double> metric;
};

struct Retention {
  std::string job;
  std::string newest;  // the one that the record of the world points to: always stays
  int keep_last = 1;   // with that one
  int keep_best = 0;   // by their metric, beside those
};

// Which of those in a folder can go. Of this job alone: what was published before the newest and is
// neither among the last nor the best, and what was never published and is older than the newest,
// so that nobody can be writing it.
std::vector<std::string> choose_removals(std::span<const StoredCheckpoint> stored,
                                         const Retention& retention);

}  // namespace ffdl::elastic
