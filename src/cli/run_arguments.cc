#include "cli/run_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/parse_count.h"
#include "cluster/plan/job_file.h"
#include "launch/node_rank.h"

namespace ffdl::cli {
namespace {

constexpr int kEndpointPort = 29400;  // torchrun's, as is the next
constexpr int kMasterPort = 29500;
constexpr int kWorkersMax = 1'000'000;    // above the limit of a job, which is reported later
constexpr const char* kOwnEtcd = "etcd";  // --store etcd
constexpr int kEtcdMembers = 3;           // survive the loss of one
constexpr double kUnknownScaling = 0.8;   // the power of the number of workers

template <class... Args>
Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                "run: " + fmt::format(format, std::forward<Args>(args)...));
}

struct Range {
  int min = 1;
  int max = 1;
};

// Parses "4" or "2:8".
Result<Range> parse_range(std::string_view option, std::string_view text) {
  const size_t colon = text.find(':');
  const auto max = base::parse_count(colon == text.npos ? text : text.substr(colon + 1));
  const auto min = colon == text.npos ? max : base::parse_count(text.substr(0, colon));
  if (min && max && *min >= 1 && *min <= *max) return Range{*min, *max};
  return wrong("{} is '{}'; use N or MIN:MAX, with 1 <= MIN <= MAX", option, text);
}

Result<int> parse_nproc(const std::string& text, int gpus) {
  if (text.empty()) return 1;
  if (text == "gpu" || (text == "auto" && gpus > 0)) {
    if (gpus > 0) return gpus;
    return wrong(
        "--nproc-per-node is 'gpu', and this host has no usable GPU; check CUDA_VISIBLE_DEVICES "
        "and /dev/nvidia0, or use a number, cpu or auto");
  }
  if (text == "cpu" || text == "auto") return static_cast<int>(std::thread::hardware_concurrency());
  const auto count = base::parse_count(text);
  if (count && *count >= 1) return *count;
  return wrong("--nproc-per-node is '{}'; use a number of at least 1, cpu, gpu or auto", text);
}

struct Endpoint {
  std::string host;
  int port = kEndpointPort;
};

Result<Endpoint> parse_endpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || text.back() == ']') return Endpoint{text};
  const auto port = base::parse_count(std::string_view(text).substr(colon + 1));
  // The next port is for MASTER_PORT.
  if (colon > 0 && port && *port < 65535) return Endpoint{text.substr(0, colon), *port};
  return wrong("--rdzv-endpoint is '{}'; use HOST or HOST:PORT, with a port below 65535", text);
}

// Returns the rank of this node: that of the arguments, or of a launcher's variables. -1: neither
// has one.
Result<int> plan_rank(const RunArguments& arguments, int nodes) {
  if (arguments.node_rank >= 0 || nodes == 1) return arguments.node_rank;
  FFDL_ASSIGN_OR_RETURN(const auto found, launch::find_node_rank(arguments.variables));
  if (!found) return -1;
  if (found->rank < nodes) return found->rank;
  return wrong("{} is {}, but the job has {} nodes; raise --nnodes, or give --node-rank",
               found->variable, found->rank, nodes);
}

// The nodes of a job, and the rank of this one, -1 if it is not known.
struct Nodes {
  int count = 1;
  int rank = -1;
};

bool starts_etcd(const RunArguments& arguments) { return arguments.store == kOwnEtcd; }

// Plans the number of workers, and those on this node.
Result<Nodes> plan_workers(const RunArguments& arguments, launch::SupervisorOptions& options) {
  Range nodes;
  if (!arguments.workers.empty()) {
    if (!arguments.nnodes.empty() || !arguments.nproc.empty()) {
      return wrong(
          "--workers and --nnodes or --nproc-per-node; use one way to set the number of workers");
    }
    FFDL_ASSIGN_OR_RETURN(const Range workers, parse_range("--workers", arguments.workers));
    options.min_workers = workers.min;
    options.max_workers = options.workers_per_node = workers.max;
  } else {
    if (!arguments.nnodes.empty()) {
      FFDL_ASSIGN_OR_RETURN(nodes, parse_range("--nnodes", arguments.nnodes));
    }
    FFDL_ASSIGN_OR_RETURN(options.workers_per_node, parse_nproc(arguments.nproc, arguments.gpus));
    if (nodes.max > kWorkersMax / options.workers_per_node) {
      return wrong("--nnodes is {} and --nproc-per-node {}; use at most {} workers in all",
                   nodes.max, options.workers_per_node, kWorkersMax);
    }
    options.min_workers = nodes.min * options.workers_per_node;
    options.max_workers = nodes.max * options.workers_per_node;
  }
  FFDL_ASSIGN_OR_RETURN(const int rank, plan_rank(arguments, nodes.max));
  options.node = std::max(rank, 0);
  if (options.node >= nodes.max) {
    return wrong(
        "--node-rank is {}, but the job has {} nodes; use a rank from 0 on, below --nnodes",
        options.node, nodes.max);
  }
  return Nodes{nodes.max, rank};
}

Status check_nodes(const RunArguments& arguments) {
  if (arguments.standalone) {
    return wrong("--standalone with several nodes; a standalone job has one node");
  }
  if (arguments.job.empty()) {
    return wrong("several nodes and no name of the job; give all nodes the same --job");
  }
  if (arguments.rdzv_endpoint.empty() && (arguments.store.empty() || starts_etcd(arguments))) {
    return wrong(
        "several nodes and no common store; give all nodes the same --rdzv-endpoint HOST:PORT, "
        "where node 0 serves the store, or the same --store URL");
  }
  return {};
}

// Plans a node without a rank. At the host of the rendezvous endpoint it is node 0, which serves
// the store. Any other takes a free number.
Status plan_free_rank(const RunArguments& arguments, RunPlan& plan) {
  plan.is_first_here = !arguments.rdzv_endpoint.empty() && arguments.is_endpoint_host;
  if (plan.is_first_here) return {};
  if (arguments.again) {
    return wrong(
        "--again on a node without --node-rank; give --again and --node-rank 0 to one node, before "
        "the other nodes start");
  }
  plan.supervisor.takes_free_node = true;
  plan.supervisor.node = arguments.rdzv_endpoint.empty() ? 0 : 1;
  return {};
}

Status plan_store(const RunArguments& arguments, RunPlan& plan) {
  if (!arguments.rdzv_backend.empty() && arguments.rdzv_backend != "c10d" &&
      arguments.rdzv_backend != "static") {
    return wrong(
        "--rdzv-backend is '{}'; use c10d or static; for an etcd, use --store etcd or --store "
        "etcd://HOST:PORT",
        arguments.rdzv_backend);
  }
  const bool is_elsewhere = !arguments.store.empty() && !starts_etcd(arguments);
  if (is_elsewhere && (arguments.standalone || !arguments.rdzv_endpoint.empty())) {
    return wrong("--store and --standalone or --rdzv-endpoint; use one way to name the store");
  }
  if (arguments.standalone && !arguments.rdzv_endpoint.empty()) {
    return wrong(
        "--standalone and --rdzv-endpoint; leave one of them out, because a standalone job has its "
        "own store");
  }
  if (arguments.store == "mem://") {
    return wrong("--store is 'mem://', which other processes cannot open; use another URL");
  }
  if (is_elsewhere) plan.supervisor.store_url = arguments.store;
  plan.is_private = !is_elsewhere && arguments.rdzv_endpoint.empty();
  if (plan.is_private) plan.serve = "127.0.0.1:0";
  return {};
}

// Reads the job's sizes from a file.
Status plan_profiled_sizes(const RunArguments& arguments, RunPlan& plan) {
  if (!arguments.scaling.empty()) return wrong("--scaling and --profile; give one of them");
  FFDL_ASSIGN_OR_RETURN(const auto jobs, cluster::load_job_requests(arguments.profile));
  const launch::SupervisorOptions& options = plan.supervisor;
  for (const SizeOption& size : jobs.front().sizes) {
    const bool is_within =
        size.workers >= options.min_workers && size.workers <= options.max_workers;
    if (is_within) plan.sizes.push_back(size);
  }
  if (jobs.size() == 1 && !plan.sizes.empty()) return {};
  return wrong(
      "--profile '{}' has {} jobs, and the first job has {} sizes within --workers {}:{}; use a "
      "file with one job that has such a size",
      arguments.profile, jobs.size(), plan.sizes.size(), options.min_workers, options.max_workers);
}

// Plans the job's sizes for the autoscaler.
Status plan_sizes(const RunArguments& arguments, RunPlan& plan) {
  if (!arguments.autoscale) {
    const char* given = !arguments.scaling.empty()   ? "--scaling"
                        : !arguments.profile.empty() ? "--profile"
                        : !arguments.on_node.empty() ? "--on-node"
                                                     : nullptr;
    if (given == nullptr) return {};
    return wrong("{} is for --autoscale; give both", given);
  }
  plan.on_node = arguments.on_node;
  if (arguments.store.empty() || starts_etcd(arguments)) {
    return wrong("--autoscale and no --store URL; give the URL that 'ffdl autoscale' uses");
  }
  const launch::SupervisorOptions& options = plan.supervisor;
  if (!arguments.profile.empty()) return plan_profiled_sizes(arguments, plan);
  const auto most = static_cast<size_t>(options.max_workers);
  if (!arguments.scaling.empty() && arguments.scaling.size() != most) {
    return wrong(
        "--scaling has {} numbers, but --workers allows up to {} workers; give one number for each "
        "size from 1 to {}",
        arguments.scaling.size(), most, most);
  }
  for (int workers = options.min_workers; workers <= options.max_workers; ++workers) {
    // Without data each further worker has less value, so that jobs share equally.
    double value = std::pow(workers, kUnknownScaling);
    if (!arguments.scaling.empty()) value = arguments.scaling[static_cast<size_t>(workers) - 1];
    if (!std::isfinite(value) || value < 0) {
      return wrong("--scaling has the value {} for {} workers; give 0 or more", value, workers);
    }
    plan.sizes.push_back({workers, value, 0});
  }
  return {};
}

Status check_policy(const RunArguments& arguments) {
  if (!arguments.policy.empty() && arguments.autoscale) {
    return wrong("--policy and --autoscale; use one of them to size the job");
  }
  if (arguments.policy.empty() && !arguments.policy_log.empty()) {
    return wrong("--policy-log is for --policy; give both");
  }
  return {};
}

// Plans the address at which torchrun's programs make their own rendezvous.
void plan_master(const RunArguments& arguments, const std::optional<Endpoint>& endpoint,
                 bool several, launch::SupervisorOptions& options) {
  options.master_address = !several ? "127.0.0.1" : endpoint ? endpoint->host : "";
  if (!arguments.master_addr.empty()) options.master_address = arguments.master_addr;
  options.master_port = arguments.master_port;
  if (several && options.master_port == 0) {
    options.master_port = endpoint ? endpoint->port + 1 : kMasterPort;
  }
}

Result<std::vector<std::string>> plan_command(const RunArguments& arguments) {
  if (arguments.program.empty()) {
    return wrong("there is no program; put it, with its arguments, after the options");
  }
  std::vector<std::string> command;
  if (arguments.is_module && arguments.no_python) {
    return wrong("--module and --no-python; use one");
  }
  if (arguments.is_module) {
    command = {arguments.python, "-u", "-m"};
  } else if (arguments.program.front().ends_with(".py") && !arguments.no_python) {
    command = {arguments.python, "-u"};
  }
  command.insert(command.end(), arguments.program.begin(), arguments.program.end());
  return command;
}

}  // namespace

void add_program(CLI::App& command, std::vector<std::string>& program) {
  // CLI11 gives a positional the words that it lacks of its number, and requires none of them. With
  // allow_extra_args() it would take any number, but take a word such as [1,2] apart.
  constexpr int kWordsMax = 1 << 20;
  command.positionals_at_end();
  command.add_option("program", program, "Program with its arguments")
      ->expected(kWordsMax)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

std::string endpoint_host(const std::string& endpoint) {
  const auto parsed = parse_endpoint(endpoint);
  std::string host = parsed.ok() ? parsed->host : "";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

Result<RunPlan> plan_run(const RunArguments& arguments) {
  RunPlan plan;
  launch::SupervisorOptions& options = plan.supervisor;
  FFDL_ASSIGN_OR_RETURN(const Nodes planned, plan_workers(arguments, options));
  const int nodes = planned.count;
  if (nodes > 1) FFDL_RETURN_IF_ERROR(check_nodes(arguments));
  if (nodes > 1 && planned.rank < 0) FFDL_RETURN_IF_ERROR(plan_free_rank(arguments, plan));
  FFDL_RETURN_IF_ERROR(plan_store(arguments, plan));
  if (arguments.autoscale && nodes > 1) {
    return wrong("--autoscale with several nodes; a job with --autoscale has one node");
  }
  if (arguments.start != 0 && arguments.autoscale) {
    return wrong(
        "--start and --autoscale; leave one of them out, because 'ffdl autoscale' decides how many "
        "workers start");
  }
  if (arguments.start != 0 &&
      (arguments.start < options.min_workers || arguments.start > options.max_workers)) {
    return wrong("--start is {}, but the job has {} to {} workers; use one of these numbers",
                 arguments.start, options.min_workers, options.max_workers);
  }
  options.first_workers = arguments.start;
  FFDL_RETURN_IF_ERROR(plan_sizes(arguments, plan));
  FFDL_RETURN_IF_ERROR(check_policy(arguments));
  FFDL_ASSIGN_OR_RETURN(options.command, plan_command(arguments));
  std::optional<Endpoint> endpoint;
  if (!arguments.rdzv_endpoint.empty()) {
    FFDL_ASSIGN_OR_RETURN(endpoint, parse_endpoint(arguments.rdzv_endpoint));
    const std::string address = fmt::format("{}:{}", endpoint->host, endpoint->port);
    (options.node == 0 ? plan.serve : options.store_url) =
        options.node == 0 ? address : "tcp://" + address;
    plan.shares_served = options.node != 0;
  }
  plan_master(arguments, endpoint, nodes > 1, options);
  if (starts_etcd(arguments)) plan.etcd_members = nodes < kEtcdMembers ? 1 : kEtcdMembers;
  if (nodes > 1 && !arguments.store.starts_with("etcd://") && plan.etcd_members < kEtcdMembers) {
    const bool is_served = arguments.store.empty() || starts_etcd(arguments);
    plan.warning = fmt::format(
        "the store is on one host ('{}'), and the job does not survive the loss of that host; use "
        "--store etcd on 3 or more nodes, or --store etcd://HOST:PORT",
        is_served ? arguments.rdzv_endpoint : arguments.store);
  }
  options.job = arguments.job;
  options.max_restarts = arguments.max_restarts.value_or(options.max_restarts);
  options.gives_up_early = !arguments.max_restarts.has_value();
  options.grace =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.grace_s));
  options.store_secret = arguments.store_secret;
  options.log_folder = arguments.log_dir;
  options.ledger_log = arguments.ledger_log;
  if (arguments.again && options.node > 0) {
    return wrong("--again on node {}; give it to node 0, before the other nodes start",
                 options.node);
  }
  if (arguments.on_lost_state == "fail") options.on_lost_state = OnLostState::kFail;
  return plan;
}

}  // namespace ffdl::cli
