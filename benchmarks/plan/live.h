#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Runs three jobs that arrive one after the other and share four workers under the autoscaler. The
// time of each is compared with the simulator's prediction, based on step times that were measured
// before.
void live_row(Suite& suite);

}  // namespace ffdl::bench
