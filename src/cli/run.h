#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl run`: starts the workers of a job on this host, and keeps them running. `program` is what
// stands after its options, which the others must not look at. `exit_code` says how it ended.
CLI::App* add_run_command(CLI::App& app, const std::vector<std::string>& program, Status& outcome,
                          int& exit_code);

}  // namespace ffdl::cli
