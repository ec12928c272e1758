#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl scale JOB N`: how many workers a running job wants.
void add_scale_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
