#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl data audit LOG...`, which checks from its commit logs that a job used each sample once
// per epoch.
void add_data_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
