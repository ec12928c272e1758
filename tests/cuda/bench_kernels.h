#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Adds rows of each kernel against copies inside the GPU's memory that read and write as many
// bytes.
void add_kernel_rows(Suite& suite);

}  // namespace ffdl::bench
