#pragma once

#include <span>

#include "ps/layout.h"

namespace ffdl::ps {

// Copies all weights out. Returns their version: every gradient of it is in what was copied.
// With PullMode::kSnapshot each shard is copied as it was between two updates: the reader asks the
// shard's thread for a pause and checks its sequence lock afterwards.
uint64_t pull_weights(const Region& region, std::span<float> to, PullMode mode);

// Called by a shard's thread between two folds: gives snapshot readers the time for one copy of the
// shard, no longer, as a reader may die. `seen` is what the thread remembers of earlier requests.
void pause_for_snapshots(const Region& region, int k, uint32_t& seen);

}  // namespace ffdl::ps
