#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// How fast samples come from a disk, against reading the disk past the system's memory.
void cold_rows(Suite& suite);

}  // namespace ffdl::bench
