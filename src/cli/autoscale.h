#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// Adds `ffdl autoscale` and `ffdl offer`. `outcome` receives the result of the chosen command, and
// `exit_code` that of an end by a signal.
void add_autoscale_command(CLI::App& app, Status& outcome, int& exit_code);
void add_offer_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
