#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"
#include "benchmarks/reference.h"

namespace ffdl::bench {

void allreduce_rows(Suite& suite, const Reference& machine);

// A group of ranks that this program starts of itself: bench_allreduce --role CONTENDER RANKS
int play_role(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
