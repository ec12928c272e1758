#pragma once

#include <cstdint>
#include <string>

#include "ffdl/status.h"

namespace ffdl::bench {

// A worker of a job that `Supervisor` runs: trains a small model for so many steps of kLiveBatch
// samples, in a session. Each sample takes kLiveSampleMs beside its gradient, in which the worker
// waits as for an accelerator: so the speed-up does not depend on this machine's cores. At the end
// each writes the median time of a step, and when it began, into a file in `folder`.
Status run_live_worker(uint64_t steps, const std::string& folder);

inline constexpr uint64_t kLiveBatch = 24;
inline constexpr double kLiveSampleMs = 4;

}  // namespace ffdl::bench
