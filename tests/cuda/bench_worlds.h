#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// How long the GPUs of a job's next world take to be connected, in each way: what `GpuWorlds` is
// chosen by.
void add_world_rows(Suite& suite);

}  // namespace ffdl::bench
