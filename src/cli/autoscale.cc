#include "cli/autoscale.h"

#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/one_of.h"
#include "cli/signals.h"
#include "ffdl/autoscaler.h"
#include "ffdl/store.h"

namespace ffdl::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ClusterStore {
  std::string url{};
  std::string secret{};
};

struct AutoscaleArguments {
  ClusterStore store;
  int workers = -1;  // -1: as the nodes offer
  double interval_s = 60;
  double switch_s = 1;
  double horizon_s = 300;
  WhenFull when_full = WhenFull::kQueue;
  bool show = false;
  bool json = false;
};

struct OfferArguments {
  ClusterStore store;
  std::string node{};
  int workers = 0;
};

void add_store(CLI::App& command, ClusterStore& to) {
  command.add_option("--store", to.url, "URL of the store that the jobs have in common")
      ->required();
  command.add_option("--store-secret", to.secret, "Secret of the store; better by the variable")
      ->envname("FFDL_STORE_SECRET");
}

Result<std::unique_ptr<Store>> open(const ClusterStore& store) {
  if (store.url == "mem://") {
    return Status(StatusCode::kInvalidArgument,
                  "open the store 'mem://': other processes do not see it; use another");
  }
  return open_store(store.url, system_runtime(), {.secret = store.secret});
}

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// By the nodes' names.
Json by_node(const std::vector<NodeAllocation>& nodes) {
  Json object = Json::object();
  for (const NodeAllocation& node : nodes) object[node.node] = node.workers;
  return object;
}

void print_json(const Allocations& all) {
  Json document = {
      {"workers", all.workers}, {"nodes", by_node(all.nodes)}, {"jobs", Json::array()}};
  for (const JobAllocation& job : all.jobs) {
    document["jobs"].push_back({{"job", job.job},
                                {"workers", job.workers},
                                {"batch", job.batch},
                                {"nodes", by_node(job.nodes)},
                                {"dropped", job.is_dropped},
                                {"reason", job.reason}});
  }
  fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_table(const Allocations& all) {
  fmt::print("{:<24} {:>8}  {}\n", "job", "workers", "why");
  for (const JobAllocation& job : all.jobs) {
    fmt::print("{:<24} {:>8}  {}\n", job.job,
               job.is_dropped ? "dropped" : std::to_string(job.workers), job.reason);
  }
  fmt::print("{} workers are offered\n", all.workers);
}

Status show(Store& store, bool as_json) {
  FFDL_ASSIGN_OR_RETURN(const Allocations all, read_allocations(store));
  as_json ? print_json(all) : print_table(all);
  return {};
}

Status run_autoscale(const AutoscaleArguments& arguments, int& exit_code) {
  block_signals();
  FFDL_ASSIGN_OR_RETURN(const auto store, open(arguments.store));
  if (arguments.show) return show(*store, arguments.json);
  if (arguments.workers >= 0) {
    FFDL_RETURN_IF_ERROR(offer_workers(*store, "autoscale", arguments.workers));
  }
  StopSource stop;
  std::atomic<int> signalled = 0;
  const SignalWatch watch([&](int signal) {
    signalled = signal;
    stop.request_stop();
  });
  const Status ended = run_autoscaler(*store, system_runtime(),
                                      {.when_full = arguments.when_full,
                                       .interval = to_duration(arguments.interval_s),
                                       .switch_cost = to_duration(arguments.switch_s),
                                       .horizon = to_duration(arguments.horizon_s)},
                                      stop.get_token());
  if (ended.code() != StatusCode::kCancelled) return ended;
  exit_code = 128 + signalled;
  return {};
}

Status run_offer(const OfferArguments& arguments) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open(arguments.store));
  return offer_workers(*store, arguments.node, arguments.workers);
}

}  // namespace

void add_autoscale_command(CLI::App& app, Status& outcome, int& exit_code) {
  const auto arguments = std::make_shared<AutoscaleArguments>();  // shared with the callback below
  CLI::App* command = app.add_subcommand(
      "autoscale", "Share the workers of a cluster among its jobs, until stopped");
  add_store(*command, arguments->store);
  command
      ->add_option("--workers", arguments->workers,
                   "offers so many (default: only what 'ffdl offer' has offered)")
      ->check(CLI::Range(0, 1'000'000'000));
  command
      ->add_option("--when-full", arguments->when_full,
                   "what becomes of a job that does not fit: queue (the default) or drop")
      ->transform(one_of<WhenFull>({{"queue", WhenFull::kQueue}, {"drop", WhenFull::kDrop}}));
  command
      ->add_option("--interval", arguments->interval_s,
                   "seconds between decisions while nothing happens")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--switch-cost", arguments->switch_s,
                   "seconds that a change of size costs a job")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--horizon", arguments->horizon_s,
                   "seconds within which a change must have paid for itself")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--show", arguments->show, "Only print what was decided last, and why");
  command->add_flag("--json", arguments->json, "With --show: print one JSON document");
  command->footer(
      "Jobs take part by 'ffdl run --autoscale' with the same store. It may be killed and started\n"
      "again at any time: the jobs train on, and it knows what the store says.\n\n"
      "Examples:\n  ffdl autoscale --store tcp:///var/tmp/cluster --workers 8\n"
      "  ffdl run --store tcp:///var/tmp/cluster --autoscale --workers 1:8 --job a train.py\n"
      "  ffdl autoscale --store tcp:///var/tmp/cluster --show");
  command->callback(
      [arguments, &outcome, &exit_code] { outcome = run_autoscale(*arguments, exit_code); });
}

void add_offer_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<OfferArguments>();  // shared with the callback below
  CLI::App* command =
      app.add_subcommand("offer", "Say how many workers a node has room for, to 'ffdl autoscale'");
  add_store(*command, arguments->store);
  command->add_option("node", arguments->node, "The node's name")->required();
  command->add_option("workers", arguments->workers, "How many; 0 takes the node away")->required();
  command->callback([arguments, &outcome] { outcome = run_offer(*arguments); });
}

}  // namespace ffdl::cli
