#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/autoscale.h"
#include "cli/data.h"
#include "cli/doctor.h"
#include "cli/migrate.h"
#include "cli/plan.h"
#include "cli/policy.h"
#include "cli/profile.h"
#include "cli/run.h"
#include "cli/run_arguments.h"
#include "cli/scale.h"
#include "cli/simulate.h"
#include "cli/stats.h"
#include "cli/status.h"
#include "ffdl/version.h"

namespace {

constexpr int kParsed = -1;

// CLI11's own has what is unknown from the last word to the first.
std::string what_is_wrong(const CLI::App* app, const CLI::Error& error) {
  const bool is_unknown = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (!is_unknown) return CLI::FailureMessage::simple(app, error);
  return fmt::format(
      "There is no such option or argument: {}\nRun with --help for more information.\n",
      fmt::join(app->remaining(/*recurse=*/true), " "));
}

// kParsed, or how the program ends: after --help with 0, after a wrong command line with 2.
int parse(CLI::App& app, int argc, char** argv) {
  app.failure_message(what_is_wrong);
  const auto parsed = [&] {
    CLI11_PARSE(app, argc, argv);
    return kParsed;
  }();
  return parsed > 0 ? 2 : parsed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Elastic distributed training", "ffdl");
  app.set_version_flag("--version", FFDL_VERSION_STRING);
  app.require_subcommand(1);
  ffdl::Status outcome;
  int exit_code = 0;
  std::vector<std::string> program;
  ffdl::cli::add_autoscale_command(app, outcome, exit_code);
  ffdl::cli::add_data_command(app, outcome);
  ffdl::cli::add_doctor_command(app, outcome);
  ffdl::cli::add_migrate_command(app, outcome);
  ffdl::cli::add_offer_command(app, outcome);
  ffdl::cli::add_plan_command(app, outcome);
  ffdl::cli::add_policy_command(app, outcome, exit_code);
  const CLI::App* profile = ffdl::cli::add_profile_command(app, program, outcome, exit_code);
  const CLI::App* run = ffdl::cli::add_run_command(app, program, outcome, exit_code);
  ffdl::cli::add_scale_command(app, outcome);
  ffdl::cli::add_simulate_command(app, outcome);
  ffdl::cli::add_stats_command(app, outcome);
  ffdl::cli::add_status_command(app, outcome);
  // After them, as each would inherit it.
  app.footer("With the Python package 'ffdl report RUN' draws what a run was like.");
  const std::string_view chosen = argc > 1 ? argv[1] : "";
  const auto is_chosen = [&](const CLI::App* command) { return command->get_name() == chosen; };
  const bool is_word = !chosen.empty() && chosen.front() != '-';
  if (is_word && app.get_subcommands(is_chosen).empty()) {
    fmt::print(stderr, "ffdl: there is no command '{}'; --help lists those that there are\n",
               chosen);
    return 2;
  }
  if (chosen == "run" || chosen == "profile") {
    const int end = ffdl::cli::options_end(chosen == "run" ? *run : *profile, argc, argv);
    program.assign(argv + end, argv + argc);
    if (!program.empty() && program.front() == "--") program.erase(program.begin());
    argc = end;
  }
  const int parsed = parse(app, argc, argv);
  if (parsed != kParsed) return parsed;
  if (outcome.ok()) return exit_code;
  fmt::print(stderr, "ffdl: {}\n", outcome.message());
  return exit_code == 0 ? 1 : exit_code;
}
