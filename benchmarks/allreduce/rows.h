#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"
#include "benchmarks/reference.h"

namespace ffdl::bench {

void allreduce_rows(Suite& suite, const Reference& machine);

// Runs a rank of a group that this program starts itself: bench_allreduce --role CONTENDER RANKS
int play_role(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
