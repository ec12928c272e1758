#pragma once

#include <CLI/CLI.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl simulate`: a workload on a cluster, in fast motion. When the command was given, `outcome`
// becomes its result.
void add_simulate_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
