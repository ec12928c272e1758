#include "cli/profile.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "base/resource_limit.h"
#include "cli/init_process.h"
#include "cli/print.h"
#include "cli/run.h"
#include "cli/run_arguments.h"
#include "cli/within.h"
#include "ffdl/runtime.h"
#include "scaling/job_profile.h"

namespace ffdl::cli {
namespace {

using scaling::JobProfile;
using scaling::JobProfileOptions;
using scaling::ProfilePoint;

struct ProfileArguments {
  RunArguments run;
  uint64_t steps = 50;
  std::string output{};  // empty: standard output
};

void print_table(const JobProfile& profile) {
  print(stderr, "{:>8} {:>10} {:>8} {:>10} {:>14} {:>12} {:>10}\n", "workers", "batch", "steps",
        "step", "communication", "samples/s", "memory");
  for (const ProfilePoint& point : profile.points) {
    print(stderr, "{:>8} {:>10} {:>8} {:>7.2f} ms {:>12.0f} % {:>12.6g} {:>6} MiB\n",
          point.step.workers, point.step.batch, point.step.steps, point.step.step_s * 1e3,
          point.communication_share() * 100, point.step.samples_per_s(),
          point.host_memory_bytes >> 20);
  }
}

// Writes the profile. The file is opened before the measurement, so that an error appears at once.
Status write(const JobProfile& profile, const std::string& path, std::ofstream& file) {
  const std::string text = scaling::profile_json(profile);
  if (path.empty()) {
    print_document(text);
    return {};
  }
  file << text << std::flush;
  if (file) return {};
  return base::system_failure(fmt::format("profile: write '{}'", path), errno,
                              "give another --output");
}

Status run_profile(const ProfileArguments& arguments, std::atomic<int>& signalled) {
  std::ofstream file;
  if (!arguments.output.empty()) {
    file.open(arguments.output);
    if (!file) {
      return base::system_failure(fmt::format("profile: write '{}'", arguments.output), errno,
                                  "give another --output");
    }
  }
  std::optional<Result<JobProfile>> profile;
  const auto beside =
      [&](Store& store, launch::Supervisor& supervisor,
          const launch::SupervisorOptions& options) -> Result<std::shared_ptr<void>> {
    const JobProfileOptions what = {.job = options.job,
                                    .min_workers = options.min_workers,
                                    .max_workers = options.max_workers,
                                    .steps = arguments.steps};
    auto task = system_runtime().spawn("ffdl-profile", [&, what](const StopToken& stop) {
      profile = scaling::profile_job(store, system_runtime(), what, stop);
      supervisor.stop();
    });
    if (!task) {
      return Status(
          StatusCode::kExhausted,
          "profile: start a thread: the system cannot start another thread; raise 'ulimit -u'");
    }
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

void add_profile_command(CLI::App& app, Status& outcome, int& exit_code) {
  const auto arguments = std::make_shared<ProfileArguments>();  // shared with the callback below
  CLI::App* command = app.add_subcommand(
      "profile",
      "Measure the speed of a job in one run, with each number of workers from MAX down to MIN");
  add_run_options(*command, arguments->run);
  command
      ->add_option("--steps", arguments->steps,
                   "Number of steps to measure with each number of workers")
      ->check(within(1, kCountMax))
      ->capture_default_str();
  command->add_option("--output", arguments->output,
                      "File for the profile (default: standard output)");
  command->footer(
      "The program must pass a StepMetrics to its session (docs/guide/policies.md). --workers\n"
      "MIN:MAX gives the smallest and the largest number of workers to measure. The program must\n"
      "train until each number of workers is measured. 'ffdl profile' then asks the workers to\n"
      "end. Standard output contains the program's output, and then the profile. To separate the\n"
      "profile from the program's output, use --output or --log-dir.\n\n"
      "Exit codes:\n"
      "  0              every number of workers was measured\n"
      "  1              a number of workers was not measured\n"
      "  2              the command line is wrong\n"
      "  129, 130, 143  ended by SIGHUP (129), SIGINT (130) or SIGTERM (143)\n\n"
      "Example:\n  ffdl profile --workers 1:4 --output digits.json train.py\n"
      "  ffdl plan --workers 8 --jobs digits.json");
  command->callback([arguments, &outcome, &exit_code] {
    if (leave_to_child(outcome, exit_code)) return;
    std::atomic<int> signalled = 0;
    const Status ended = run_profile(*arguments, signalled);
    outcome = without_signal(ended, signalled, exit_code);
  });
}

}  // namespace ffdl::cli
