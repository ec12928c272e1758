#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl profile`: how fast a job is with each number of workers. `program` and `exit_code` are what
// they are to add_run_command().
CLI::App* add_profile_command(CLI::App& app, const std::vector<std::string>& program,
                              Status& outcome, int& exit_code);

}  // namespace ffdl::cli
