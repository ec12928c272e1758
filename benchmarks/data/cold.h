#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Measures the speed of samples from a disk, against reads of the disk that bypass the system's
// memory.
void cold_rows(Suite& suite);

}  // namespace ffdl::bench
