#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Measures the cost of the ledger for a training loop.
void overhead_rows(Suite& suite);

}  // namespace ffdl::bench
