#include "cli/autoscale.h"

#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/one_of.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/within.h"
#include "cluster/autoscaler/autoscaler.h"
#include "ffdl/cluster/autoscaler.h"
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
  int workers = -1;  // -1: the workers that the nodes offer
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
  command.add_option("--store", to.url, "URL of the store that 'ffdl autoscale' and the jobs use")
      ->required();
  command
      .add_option("--store-secret", to.secret,
                  "Secret of the store; prefer the variable FFDL_STORE_SECRET, because other users "
                  "can see this option")
      ->envname("FFDL_STORE_SECRET");
}

Result<std::unique_ptr<Store>> open(const ClusterStore& store) {
  if (store.url == "mem://") {
    return Status(StatusCode::kInvalidArgument,
                  "open the store 'mem://': other processes cannot open it; use another URL");
  }
  return open_store(store.url, system_runtime(), {.secret = store.secret});
}

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Returns the workers by the nodes' names.
Json by_node(const std::vector<NodeWorkers>& nodes) {
  Json object = Json::object();
  for (const NodeWorkers& node : nodes) object[node.node] = node.workers;
  return object;
}

void print_json(const Allocations& all) {
  Json document = {
      {"workers", all.workers}, {"nodes", by_node(all.nodes)}, {"jobs", Json::array()}};
  for (const JobAllocation& job : all.jobs) {
    document["jobs"].push_back({{"job", job.name},
                                {"workers", job.workers},
                                {"batch", job.batch},
                                {"nodes", by_node(job.nodes)},
                                {"dropped", job.is_dropped},
                                {"reason", job.reason}});
  }
  print_document(document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n");
}

void print_table(const Allocations& all) {
  print("{:<24} {:>8}  {}\n", "job", "workers", "why");
  for (const JobAllocation& job : all.jobs) {
    print("{:<24} {:>8}  {}\n", job.name, job.is_dropped ? "dropped" : std::to_string(job.workers),
          job.reason);
  }
  print("{} workers are offered\n", all.workers);
}

Status show(Store& store, bool as_json) {
  FFDL_ASSIGN_OR_RETURN(const Allocations all, read_allocations(store));
  as_json ? print_json(all) : print_table(all);
  return {};
}

Status run_autoscale(const AutoscaleArguments& arguments, int& exit_code) {
  block_signals();
  const auto end = end_at_once("the jobs keep their sizes");
  FFDL_ASSIGN_OR_RETURN(const auto watch, SignalWatch::start(end));
  FFDL_ASSIGN_OR_RETURN(const auto store, open(arguments.store));
  if (arguments.show) return show(*store, arguments.json);
  if (arguments.workers >= 0) {
    FFDL_RETURN_IF_ERROR(offer_workers(*store, "autoscale", arguments.workers));
  }
  StopSource stop;
  std::atomic<int> signalled = 0;
  LastResort last_resort([] { return true; }, end);  // the store may not answer
  const auto on_end = [&](int signal) {
    if (signalled.exchange(signal) != 0) return end(signal);
    last_resort.begin(signal);
    stop.request_stop();
  };
  const HandledSignals handled(*watch, {.on_end = on_end});
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
      "autoscale", "Share the workers of a cluster among jobs, until this command is stopped");
  add_store(*command, arguments->store);
  command
      ->add_option("--workers", arguments->workers,
                   "Number of workers that this command itself offers, in addition to the offers "
                   "of 'ffdl offer'")
      ->check(within(0, kCountMax));
  command
      ->add_option("--when-full", arguments->when_full,
                   "If a job does not fit into the cluster: queue (the job waits; default) or drop "
                   "(the job is rejected)")
      ->transform(one_of<WhenFull>({{"queue", WhenFull::kQueue}, {"drop", WhenFull::kDrop}}));
  command
      ->add_option("--interval", arguments->interval_s,
                   "Seconds between decisions if no job starts or ends and no offer changes")
      ->check(within(1e-3, kSecondsMax))
      ->capture_default_str();
  command
      ->add_option("--switch-cost", arguments->switch_s,
                   "Seconds of training that a job loses when its number of workers changes")
      ->check(within(0, kSecondsMax))
      ->capture_default_str();
  command
      ->add_option("--horizon", arguments->horizon_s,
                   "Seconds within which a change of a job's number of workers must gain more "
                   "than --switch-cost")
      ->check(within(1e-3, kSecondsMax))
      ->capture_default_str();
  command->add_flag("--show", arguments->show,
                    "Print the last decision about each job with the reason, and exit");
  command->add_flag("--json", arguments->json, "If --show is set: print the decisions as JSON");
  command->footer(
      "To add a job, run 'ffdl run --autoscale' with the same --store. If this command is killed,\n"
      "the jobs keep their numbers of workers. The next 'ffdl autoscale' continues from the\n"
      "decisions in the store.\n\n"
      "Examples:\n  ffdl autoscale --store tcp://$HOME/cluster --workers 8\n"
      "  ffdl run --store tcp://$HOME/cluster --autoscale --workers 1:8 --job a train.py\n"
      "  ffdl autoscale --store tcp://$HOME/cluster --show");
  command->callback(
      [arguments, &outcome, &exit_code] { outcome = run_autoscale(*arguments, exit_code); });
}

void add_offer_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<OfferArguments>();  // shared with the callback below
  CLI::App* command =
      app.add_subcommand("offer", "Offer the workers of a node to 'ffdl autoscale'");
  add_store(*command, arguments->store);
  command->add_option("node", arguments->node, "Name of the node")->required();
  command
      ->add_option("workers", arguments->workers,
                   "Number of workers that the node offers to the jobs; 0 withdraws the offer")
      ->check(within(0, kCountMax))
      ->required();
  command->callback([arguments, &outcome] { outcome = run_offer(*arguments); });
}

}  // namespace ffdl::cli
