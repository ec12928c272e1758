#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/resident.h"
#include "ffdl/status.h"

namespace ffdl::bench {

// A script of benchmarks/peers, in the peers' Python, with its arguments. It answers a count with
// the seconds of that many steps. Returns when it is ready.
// Errors: kNotFound (the peers are not installed), kInternal, and those of Resident.
Result<std::unique_ptr<Resident>> start_script(std::vector<std::string> words);

}  // namespace ffdl::bench
