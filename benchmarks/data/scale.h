#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// What the ledger needs where a data set is large: time to go on, memory, and partitions handed
// out.
void scale_rows(Suite& suite);

// Processes that say how much memory they needed, in MiB: '--role ledger-memory -' and '--role
// worker-memory FILE'.
int play_ledger_memory();
int play_worker_memory(const std::string& path);

}  // namespace ffdl::bench
