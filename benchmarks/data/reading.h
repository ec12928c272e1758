#pragma once

#include <string>

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// How fast samples come out of files that the system holds in memory, each byte of them read.
void reading_rows(Suite& suite);

// A process that begins with nothing and reads its first batch: '--role first-batch FILE'.
int play_first_batch(const std::string& path);

}  // namespace ffdl::bench
