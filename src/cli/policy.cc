#include "cli/policy.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/print.h"
#include "cli/within.h"
#include "ffdl/scaling/elastic_policy.h"

namespace ffdl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSwings = 3;

struct ReplayArguments {
  std::string policy;
  std::string trace;
  std::optional<int> first_workers;
  double window_s = 600;
  double max_oscillation = 1;
  bool json = false;
};

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

void print_json(const PolicyReplay& replay) {
  Json document = {{"changes", replay.changes},
                   {"reversals", replay.reversals},
                   {"oscillation", replay.oscillation()},
                   {"unmeasured", replay.unmeasured},
                   {"seconds", replay.seconds},
                   {"worker_seconds", replay.worker_seconds},
                   {"mean_workers", replay.mean_workers()},
                   {"points", Json::array()}};
  for (const ReplayPoint& point : replay.points) {
    document["points"].push_back({{"t_s", seconds(point.at.time_since_epoch())},
                                  {"workers", point.workers},
                                  {"proposed", point.proposed},
                                  {"reason", point.reason}});
  }
  print_document(document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n");
}

// Prints the first point, and those where the size changes.
void print_table(const PolicyReplay& replay) {
  print("{:>10} {:>8} {:>9}  {}\n", "time", "workers", "proposed", "why");
  int workers = -1;
  for (const ReplayPoint& point : replay.points) {
    if (point.workers == workers) continue;
    workers = point.workers;
    print("{:>8.1f} s {:>8} {:>9}  {}\n", seconds(point.at - replay.points.front().at),
          point.workers, point.proposed, point.reason);
  }
  print(
      "{} points in {:.1f} s: {} changes, {} of them reversals (oscillation {:.2f}); {:.2f} "
      "workers on average\n",
      replay.points.size(), replay.seconds, replay.changes, replay.reversals, replay.oscillation(),
      replay.mean_workers());
  if (replay.unmeasured > 0) {
    print("at {} points the policy had chosen a size whose speed is not in the trace\n",
          replay.unmeasured);
  }
}

Status run_replay(const ReplayArguments& arguments, int& exit_code) {
  FFDL_ASSIGN_OR_RETURN(const LoadedPolicy loaded, load_policy(arguments.policy));
  FFDL_ASSIGN_OR_RETURN(const std::vector<Observation> trace, load_policy_trace(arguments.trace));
  const auto window =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.window_s));
  FFDL_ASSIGN_OR_RETURN(
      const PolicyReplay replay,
      replay_policy(trace, *loaded.policy, loaded.steady, arguments.first_workers, window));
  arguments.json ? print_json(replay) : print_table(replay);
  if (replay.oscillation() <= arguments.max_oscillation) return {};
  exit_code = kSwings;
  return Status(StatusCode::kExhausted,
                fmt::format("replay '{}': its oscillation is {:.2f}, above {}; try a longer "
                            "cooldown_s, or more confirmations",
                            arguments.policy, replay.oscillation(), arguments.max_oscillation));
}

}  // namespace

void add_policy_command(CLI::App& app, Status& outcome, int& exit_code) {
  const auto arguments = std::make_shared<ReplayArguments>();  // shared with the callback below
  CLI::App* command =
      app.add_subcommand("policy", "Test a policy of 'ffdl run --policy' (docs/guide/policies.md)");
  command->require_subcommand(1);
  CLI::App* replay = command->add_subcommand(
      "replay", "Replay a job's log, and print how many workers a policy would have requested");
  replay->add_option("trace", arguments->trace, "Log written by 'ffdl run --policy-log'")
      ->required();
  replay->add_option("--policy", arguments->policy, "YAML or JSON file with the policy")
      ->required();
  replay
      ->add_option("--first-workers", arguments->first_workers,
                   "Number of workers at the start of the replay (default: as in the log)")
      ->check(within(1, kCountMax));
  replay
      ->add_option(
          "--window", arguments->window_s,
          "Two changes of the number of workers in opposite directions, within this number of "
          "seconds, count as a reversal")
      ->check(within(0, kSecondsMax))
      ->capture_default_str();
  replay
      ->add_option("--max-oscillation", arguments->max_oscillation,
                   "Largest allowed share of reversals among all changes of the number of workers, "
                   "from 0 to 1")
      ->check(within(0, 1))
      ->capture_default_str();
  replay->add_flag("--json", arguments->json, "Print the replay as JSON");
  replay->footer(
      "Exit codes:\n"
      "  0         the share of reversals is at most --max-oscillation\n"
      "  1         the policy or the log could not be read\n"
      "  2         the command line is wrong\n"
      "  3         the share of reversals is above --max-oscillation\n\n"
      "Example:\n  ffdl run --workers 1:4 --policy queue.yaml --policy-log sizes.jsonl train.py\n"
      "  ffdl policy replay --policy other.yaml sizes.jsonl --max-oscillation 0.2");
  replay->callback(
      [arguments, &outcome, &exit_code] { outcome = run_replay(*arguments, exit_code); });
}

}  // namespace ffdl::cli
