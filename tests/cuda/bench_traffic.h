#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Adds rows of traffic between GPU and host, against copies of as many bytes of pinned memory.
void add_traffic_rows(Suite& suite);

}  // namespace ffdl::bench
