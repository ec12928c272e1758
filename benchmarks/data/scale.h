#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// Measures the ledger with a large data set: the time to continue, the memory, and partitions that
// are handed out.
void scale_rows(Suite& suite);

// Processes that report their peak memory in MiB: '--role ledger-memory -' and '--role
// worker-memory FILE'.
int play_ledger_memory();
int play_worker_memory(const std::string& path);

}  // namespace ffdl::bench
