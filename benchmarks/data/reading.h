#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Measures the speed of reading every byte of samples from files that are in the system's memory.
void reading_rows(Suite& suite);

}  // namespace ffdl::bench
