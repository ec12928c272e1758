#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl profile`, which measures a job's speed with each number of workers. `program` and
// `exit_code` have the meaning that they have in add_run_command().
CLI::App* add_profile_command(CLI::App& app, const std::vector<std::string>& program,
                              Status& outcome, int& exit_code);

}  // namespace ffdl::cli
