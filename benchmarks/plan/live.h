#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Three jobs that train, one after the other arriving, share four workers under the autoscaler;
// what each took is compared with what the simulator says, given the times of steps that were
// measured before.
void live_row(Suite& suite);

}  // namespace ffdl::bench
