#pragma once

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// What passes between GPU and host, against copies of pinned memory of as many bytes.
void add_traffic_rows(Suite& suite);

}  // namespace ffdl::bench
