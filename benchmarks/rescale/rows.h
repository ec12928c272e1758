#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"

// The groups of rows of './dev bench rescale', each in a file of its own.
namespace ffdl::bench {

// Measure the time until others know that members, their leader or the store's server are killed or
// stopped.
void death_rows(Suite& suite);

// Measure the pause of the other workers when workers that train join, leave and are killed.
void change_rows(Suite& suite);

// Measure how soon a worker that stood still trains again, after the death of the one that trained
// without it.
void stall_rows(Suite& suite);

// Measures the cost of a session while nothing changes.
void overhead_row(Suite& suite);

// Runs a child that this program starts itself: bench_rescale --role NAME ...
int play_role(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
