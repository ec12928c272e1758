#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl status JOB`, which shows the members of a job and their progress.
void add_status_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
