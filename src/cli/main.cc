#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/autoscale.h"
#include "cli/data.h"
#include "cli/doctor.h"
#include "cli/migrate.h"
#include "cli/plan.h"
#include "cli/policy.h"
#include "cli/print.h"
#include "cli/profile.h"
#include "cli/run.h"
#include "cli/scale.h"
#include "cli/signals.h"
#include "cli/simulate.h"
#include "cli/stats.h"
#include "cli/status.h"
#include "ffdl/version.h"

namespace {

constexpr int kParsed = -1;

// Returns the message for a wrong command line. CLI11's own lists unknown words from the last to
// the first.
std::string what_is_wrong(const CLI::App* app, const CLI::Error& error) {
  const std::vector<std::string> unknown = app->remaining();
  if (app->get_subcommands().empty() && !unknown.empty() && !unknown.front().starts_with('-')) {
    return fmt::format("ffdl: there is no command '{}'; --help lists the commands\n",
                       unknown.front());
  }
  const bool is_unknown = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (!is_unknown) return CLI::FailureMessage::simple(app, error);
  return fmt::format(
      "There is no such option or argument: {}\nRun with --help for more information.\n",
      fmt::join(app->remaining(/*recurse=*/true), " "));
}

// Returns kParsed, or the exit code of the program: 0 after --help, 2 after a wrong command line.
int parse(CLI::App& app, int argc, char** argv) {
  app.failure_message(what_is_wrong);
  const auto parsed = [&] {
    CLI11_PARSE(app, argc, argv);
    return kParsed;
  }();
  return parsed > 0 ? 2 : parsed;
}

ffdl::Status exhausted(const std::string& what) {
  return {ffdl::StatusCode::kExhausted,
          fmt::format("a resource of the system is used up: {}; end other processes, or raise "
                      "'ulimit -n', '-u' or '-v'",
                      what)};
}

// Ends the process if C++ finds no memory. An exception would do so by std::terminate on every
// thread but that of main(), and in functions that may not throw.
void end_without_memory() {
  constexpr std::string_view kText =
      "ffdl: there is no memory left; free some, or raise 'ulimit -v' or the container's limit\n";
  static_cast<void>(::write(STDERR_FILENO, kText.data(), kText.size()));
  std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_new_handler(end_without_memory);
  ffdl::cli::block_file_size_signal();
  CLI::App app("Elastic distributed training", "ffdl");
  app.set_version_flag("--version", "ffdl " FFDL_VERSION_STRING ", " FFDL_BUILT_WITH);
  app.require_subcommand(1);
  ffdl::Status outcome;
  int exit_code = 0;
  ffdl::cli::add_autoscale_command(app, outcome, exit_code);
  ffdl::cli::add_data_command(app, outcome);
  ffdl::cli::add_doctor_command(app, outcome);
  ffdl::cli::add_migrate_command(app, outcome);
  ffdl::cli::add_offer_command(app, outcome);
  ffdl::cli::add_plan_command(app, outcome);
  ffdl::cli::add_policy_command(app, outcome, exit_code);
  ffdl::cli::add_profile_command(app, outcome, exit_code);
  ffdl::cli::add_run_command(app, outcome, exit_code);
  ffdl::cli::add_scale_command(app, outcome);
  ffdl::cli::add_simulate_command(app, outcome);
  ffdl::cli::add_stats_command(app, outcome);
  ffdl::cli::add_status_command(app, outcome);
  // After them, as each would inherit it.
  app.footer(
      "If the Python package is installed, 'ffdl report RUN' draws a picture of a run, and\n"
      "'ffdl checkpoint' lists and converts checkpoints.");
  int parsed = kParsed;
  try {
    parsed = parse(app, argc, argv);
  } catch (const std::system_error& error) {  // thrown by std::thread, among others
    outcome = exhausted(error.code().message());
  }
  if (parsed != kParsed) return parsed;
  if (outcome.ok() && !ffdl::cli::has_printed_all()) {
    outcome = {ffdl::StatusCode::kExhausted,
               "write the output: only a part was written; free space on the disk of the output "
               "file, or raise 'ulimit -f'"};
  }
  if (outcome.ok()) return exit_code;
  ffdl::cli::print(stderr, "ffdl: {}\n", outcome.message());
  return exit_code == 0 ? 1 : exit_code;
}
