#pragma once

#include <cstdint>
#include <string>

#include "ffdl/status.h"

namespace ffdl::bench {

// Runs a worker of a job that `Supervisor` started. It trains a small model in a session for
// `steps` steps of kLiveBatch samples. Each sample takes kLiveSampleMs beside its gradient, a wait
// as for an accelerator. So the speed-up does not depend on the cores of this machine. At the end
// each worker writes the median step time, and the time when it began, into a file in `folder`.
Status run_live_worker(uint64_t steps, const std::string& folder);

inline constexpr uint64_t kLiveBatch = 24;
inline constexpr double kLiveSampleMs = 4;

}  // namespace ffdl::bench
