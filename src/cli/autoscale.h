#pragma once

#include <CLI/App.hpp>

#include "ffdl/status.h"

namespace ffdl::cli {

// `ffdl autoscale` and `ffdl offer`. The outcome of the one that was chosen goes to `outcome`,
// that of an end by a signal to `exit_code`.
void add_autoscale_command(CLI::App& app, Status& outcome, int& exit_code);
void add_offer_command(CLI::App& app, Status& outcome);

}  // namespace ffdl::cli
