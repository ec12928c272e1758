#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cli/doctor.h"
#include "cli/plan.h"
#include "cli/simulate.h"
#include "cli/stats.h"
#include "ffdl/version.h"

int main(int argc, char** argv) {
  CLI::App app("Elastic distributed training", "ffdl");
  app.set_version_flag("--version", FFDL_VERSION_STRING);
  app.require_subcommand(1);
  ffdl::Status outcome;
  ffdl::cli::add_doctor_command(app, outcome);
  ffdl::cli::add_plan_command(app, outcome);
  ffdl::cli::add_simulate_command(app, outcome);
  ffdl::cli::add_stats_command(app, outcome);
  CLI11_PARSE(app, argc, argv);
  if (outcome.ok()) return 0;
  fmt::print(stderr, "ffdl: {}\n", outcome.message());
  return 1;
}
