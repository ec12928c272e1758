#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl migrate JOB FROM [TO]`: one worker of a running job hands its place to another.
void add_migrate_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
