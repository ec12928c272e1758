#pragma once

#include <CLI/CLI.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl simulate`, which simulates a workload on a cluster. If the command is given, `outcome`
// becomes its result.
void add_simulate_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
