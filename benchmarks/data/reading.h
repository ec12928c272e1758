#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// How fast samples come out of files that the system holds in memory, each byte of them read.
void reading_rows(Suite& suite);

}  // namespace ffdl::bench
