#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl stats NAME`, which shows the counters of a parameter server, read from outside.
void add_stats_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
