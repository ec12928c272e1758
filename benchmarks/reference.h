#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// What this machine can do, measured at the start of the run that uses it.
struct Reference {
  std::vector<int> cpus;
  int threads = 1;                     // of server and loops where a row says "all"
  uint64_t large_bytes = 0;            // weights that no cache holds
  double traffic_bytes_per_s = 0;      // all threads
  double traffic_one_bytes_per_s = 0;  // one thread
  double round_trip_s = 0;  // of a cache line between two processes; 0 with one processor
};

// Adds the rows <suite>/machine/*.
Reference measure_machine(Suite& suite);

// A size in names of rows: "64KiB", "16MiB".
std::string size_name(uint64_t bytes);

}  // namespace ffdl::bench
