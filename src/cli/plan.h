#pragma once

#include <CLI/CLI.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl plan`: which job gets how many workers. When the command was given, `outcome` becomes its
// result.
void add_plan_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
