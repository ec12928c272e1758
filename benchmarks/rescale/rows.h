#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"

// The groups of rows of './dev bench rescale', each in a file of its own.
namespace ffdl::bench {

// Members, their leader and the store's server are killed or stopped: until the others know.
void death_rows(Suite& suite);

// Workers that train join, leave and are killed: how long the others stand still.
void change_rows(Suite& suite);

// What a session costs where nothing changes.
void overhead_row(Suite& suite);

// The children that this program starts of itself: bench_rescale --role NAME ...
int play_role(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
