#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl policy replay`, which applies a policy to a recorded job. `exit_code` reports whether
// it oscillates.
void add_policy_command(CLI::App& app, Status& outcome, int& exit_code);

}  // namespace ffdl::cli
