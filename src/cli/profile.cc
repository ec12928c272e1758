#include "cli/profile.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "cli/run.h"
#include "cli/run_arguments.h"
#include "ffdl/job_profile.h"
#include "ffdl/runtime.h"

namespace ffdl::cli {
namespace {

struct ProfileArguments {
  RunArguments run;
  uint64_t steps = 50;
  std::string output{};  // empty: standard output
};

void print_table(const JobProfile& profile) {
  fmt::print(stderr, "{:>8} {:>10} {:>8} {:>10} {:>14} {:>12} {:>10}\n", "workers", "batch",
             "steps", "step", "communication", "samples/s", "memory");
  for (const ProfilePoint& point : profile.points) {
    fmt::print(stderr, "{:>8} {:>10} {:>8} {:>7.2f} ms {:>12.0f} % {:>12.6g} {:>6} MiB\n",
               point.workers, point.batch, point.steps, point.step_s * 1e3,
               point.communication_share * 100, point.samples_per_s, point.host_memory_bytes >> 20);
  }
}

// The file is opened before anything is measured: nobody shall wait in vain.
Status write(const JobProfile& profile, const std::string& path, std::ofstream& file) {
  const std::string text = profile_json(profile);
  if (path.empty()) {
    fmt::print("{}", text);
    return {};
  }
  file << text << std::flush;
  if (file) return {};
  return Status(StatusCode::kUnavailable, fmt::format("profile: write '{}': the disk is full, or "
                                                      "gone; give another --output",
                                                      path));
}

Status run_profile(const ProfileArguments& arguments, std::atomic<int>& signalled) {
  std::ofstream file;
  if (!arguments.output.empty()) {
    file.open(arguments.output);
    if (!file) {
      return Status(StatusCode::kUnavailable,
                    fmt::format("profile: write '{}': it cannot be opened; give another --output",
                                arguments.output));
    }
  }
  std::optional<Result<JobProfile>> profile;
  const auto beside = [&](Store& store, Supervisor& supervisor,
                          const SupervisorOptions& options) -> Result<std::shared_ptr<void>> {
    const JobProfileOptions what = {.job = options.job,
                                    .min_workers = options.min_workers,
                                    .max_workers = options.max_workers,
                                    .steps = arguments.steps};
    auto task = system_runtime().spawn("ffdl-profile", [&, what](const StopToken& stop) {
      profile = profile_job(store, system_runtime(), what, stop);
      supervisor.stop();
    });
    return std::shared_ptr<void>(std::move(task));
  };
  const Status ended = run_job(arguments.run, beside, signalled);
  if (!profile || signalled != 0) return ended;
  if (!profile->ok()) {
    const bool has_failed = !ended.ok() && ended.code() != StatusCode::kCancelled;
    return has_failed ? ended : profile->status();
  }
  print_table(**profile);
  return write(**profile, arguments.output, file);
}

}  // namespace

CLI::App* add_profile_command(CLI::App& app, const std::vector<std::string>& program,
                              Status& outcome, int& exit_code) {
  const auto arguments = std::make_shared<ProfileArguments>();  // shared with the callback below
  CLI::App* command =
      app.add_subcommand("profile", "Measure a job with MAX, ... MIN workers in one run of it");
  add_run_options(*command, arguments->run);
  command
      ->add_option("--steps", arguments->steps, "steps to be measured with each number of workers")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  command->add_option("--output", arguments->output, "file for the profile (default: print it)");
  command->footer(
      "The program is one for 'ffdl run' whose session has a StepMeter (docs/launch.md). It is\n"
      "asked to end when the smallest size has been measured, and must train until then. Its "
      "lines\n"
      "come before the profile where that is printed; give --output or --log-dir.\n\n"
      "Exit codes: 0 all sizes were measured; 1 they were not; 2 the command line; 130 or 143\n"
      "ended by SIGINT or SIGTERM.\n\n"
      "Example:\n  ffdl profile --workers 1:4 --output digits.json train.py\n"
      "  ffdl plan --workers 8 --jobs digits.json");
  command->callback([arguments, &program, &outcome, &exit_code] {
    arguments->run.program = program;
    std::atomic<int> signalled = 0;
    const Status ended = run_profile(*arguments, signalled);
    outcome = without_signal(ended, signalled, exit_code);
  });
  return command;
}

}  // namespace ffdl::cli
