#pragma once

#include <map>
#include <string>

#include "ffdl/log.h"

// Every environment variable that ffdl reads, and nowhere else is one read.
namespace ffdl::base {

struct Environment {
  LogLevel log_level = LogLevel::kWarning;  // FFDL_LOG: debug, info, warning, error
  // What ffdl run, torchrun, Slurm, Open MPI and PMI launchers set, name -> value, as far as it is
  // set.
  std::map<std::string, std::string> launcher{};
};

// Read once, at the first call.
const Environment& environment();

}  // namespace ffdl::base
