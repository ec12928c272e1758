#pragma once

#include <CLI/CLI.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl plan`, which computes the number of workers of each job. If the command is given,
// `outcome` becomes its result.
void add_plan_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
