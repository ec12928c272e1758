#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl doctor`: the shared-memory segments of this host; removes those whose owners are dead.
void add_doctor_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
