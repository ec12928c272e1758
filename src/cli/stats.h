#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl stats NAME`: what a parameter server has done, seen from outside.
void add_stats_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
