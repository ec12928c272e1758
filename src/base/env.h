#pragma once

#include <map>
#include <string>
#include <vector>

#include "ffdl/log.h"

// Holds every environment variable that ffdl reads. No other file reads one.
namespace ffdl::base {

struct Environment {
  LogLevel log_level = LogLevel::kWarning;  // FFDL_LOG: debug, info, warning, error
  // Variables that ffdl run, torchrun, Slurm, Open MPI and PMI launchers set, name -> value. Absent
  // if not set.
  std::map<std::string, std::string> launcher{};
  std::string nccl_root{};                     // NCCL_ROOT: the folder of NCCL
  std::vector<std::string> python_prefixes{};  // VIRTUAL_ENV, CONDA_PREFIX, if set
};

// Reads the variables once, at the first call.
const Environment& environment();

}  // namespace ffdl::base
