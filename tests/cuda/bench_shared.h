#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Adds rows of all_reduce among processes that share one GPU. Compares shared memory with NCCL if
// NCCL supports that.
void add_shared_rows(Suite& suite);

}  // namespace ffdl::bench
