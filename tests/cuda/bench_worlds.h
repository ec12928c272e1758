#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Adds rows of the time to connect the GPUs of a job's next world, in each way. The results support
// the choice of `GpuWorlds`.
void add_world_rows(Suite& suite);

}  // namespace ffdl::bench
