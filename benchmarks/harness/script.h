#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/resident.h"
#include "ffdl/status.h"

namespace ffdl::bench {

// Starts a script of benchmarks/peers with its arguments, in the peers' Python. For a count it
// answers with the seconds of that many steps. Returns when the script is ready.
// Errors: kNotFound (the peers are not installed), kInternal, and those of Resident.
Result<std::unique_ptr<Resident>> start_script(std::vector<std::string> words);

}  // namespace ffdl::bench
