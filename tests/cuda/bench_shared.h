#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// all_reduce among processes that have one GPU, through memory that they share, against NCCL where
// that lets them.
void add_shared_rows(Suite& suite);

}  // namespace ffdl::bench
