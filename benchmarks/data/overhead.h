#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// What the ledger costs a training loop.
void overhead_rows(Suite& suite);

}  // namespace ffdl::bench
