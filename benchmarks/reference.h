#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"

namespace ffdl::bench {

// The limits of this machine, measured at the start of the run that uses them.
struct Reference {
  std::vector<int> cpus;
  int threads = 1;                     // of server and loops in rows that say "all"
  uint64_t large_bytes = 0;            // bytes of weights that no cache holds
  double traffic_bytes_per_s = 0;      // with all threads
  double traffic_one_bytes_per_s = 0;  // with one thread
  double round_trip_s = 0;  // of a cache line between two processes; 0 with one processor
};

// Adds the rows <suite>/machine/*.
Reference measure_machine(Suite& suite);

// Returns a size as row names have it: "64KiB", "16MiB".
std::string size_name(uint64_t bytes);

}  // namespace ffdl::bench
