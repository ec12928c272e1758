#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl status JOB`: who works in a job, and how far they are.
void add_status_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
