#pragma once

#include <cstdint>

namespace ffdl {

// What a session has done since it was opened.
struct SessionStats {
  uint64_t steps = 0;           // applied here
  uint64_t retried_steps = 0;   // kRetryStep, and those that the session repeated by itself
  uint64_t early_buckets = 0;   // averaged before end_step() was called
  uint64_t worlds = 0;          // entered
  uint64_t healed = 0;          // times that the state was taken over from another
  uint64_t bytes_received = 0;  // of state
  uint64_t bytes_sent = 0;
  uint64_t checkpoints = 0;          // published, with a share of this member
  uint64_t dropped_checkpoints = 0;  // with one, but nothing came of them: see checkpoint_status()
};

}  // namespace ffdl
