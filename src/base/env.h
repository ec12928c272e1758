#pragma once

#include <map>
#include <string>
#include <vector>

#include "ffdl/log.h"

// Every environment variable that ffdl reads, and nowhere else is one read.
namespace ffdl::base {

struct Environment {
  LogLevel log_level = LogLevel::kWarning;  // FFDL_LOG: debug, info, warning, error
  // What ffdl run, torchrun, Slurm, Open MPI and PMI launchers set, name -> value, as far as it is
  // set.
  std::map<std::string, std::string> launcher{};
  std::string nccl_root{};                     // NCCL_ROOT: the folder of NCCL
  std::vector<std::string> python_prefixes{};  // VIRTUAL_ENV, CONDA_PREFIX: as far as set
};

// Read once, at the first call.
const Environment& environment();

}  // namespace ffdl::base
