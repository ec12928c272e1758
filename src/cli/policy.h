#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl policy replay`: a policy on a job that was recorded. `exit_code` says whether it swings.
void add_policy_command(CLI::App& app, Status& outcome, int& exit_code);

}  // namespace ffdl::cli
