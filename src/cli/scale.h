#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl scale JOB N`, which sets the number of workers that a running job wants.
void add_scale_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
