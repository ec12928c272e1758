#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl profile`, which measures a job's speed with each number of workers. `exit_code` has
// the meaning that it has in add_run_command().
void add_profile_command(CLI::App& app, Status& outcome, int& exit_code);

}  // namespace ffdl::cli
