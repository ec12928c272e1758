#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Adds rows of a parameter server that folds in the GPU's memory, against one that folds on the
// processor.
void add_fold_rows(Suite& suite);

}  // namespace ffdl::bench
