#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl data audit LOG...`: whether a job used each sample once per epoch, by its commit logs.
void add_data_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
