#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl doctor`, which lists this host's shared-memory segments, and removes those whose
// owners are dead.
void add_doctor_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
