#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Each kernel against copies inside the GPU's memory that read and write as many bytes.
void add_kernel_rows(Suite& suite);

}  // namespace ffdl::bench
