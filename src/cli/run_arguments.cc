#include "cli/run_arguments.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "ffdl/plan_files.h"

namespace ffdl::cli {
namespace {

constexpr int kEndpointPort = 29400;  // torchrun's, as is the next
constexpr int kMasterPort = 29500;
constexpr double kUnknownScaling = 0.8;  // the power of the number of workers

template <class... Args>
Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                "run: " + fmt::format(format, std::forward<Args>(args)...));
}

std::optional<int> number_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_one = error == std::errc() && end == text.data() + text.size();
  return is_one && value >= 0 ? std::optional(value) : std::nullopt;
}

struct Range {
  int min = 1;
  int max = 1;
};

// "4" or "2:8".
Result<Range> parse_range(std::string_view option, std::string_view text) {
  const size_t colon = text.find(':');
  const auto max = number_of(colon == text.npos ? text : text.substr(colon + 1));
  const auto min = colon == text.npos ? max : number_of(text.substr(0, colon));
  if (min && max && *min >= 1 && *min <= *max) return Range{*min, *max};
  return wrong("{} is '{}'; use N or MIN:MAX, with 1 <= MIN <= MAX", option, text);
}

Result<int> parse_nproc(const std::string& text) {
  if (text.empty()) return 1;
  if (text == "cpu") return static_cast<int>(std::thread::hardware_concurrency());
  const auto count = number_of(text);
  if (count && *count >= 1) return *count;
  return wrong("--nproc-per-node is '{}'; use a number from 1 on, or cpu", text);
}

struct Endpoint {
  std::string host;
  int port = kEndpointPort;
};

Result<Endpoint> parse_endpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || text.back() == ']') return Endpoint{text};
  const auto port = number_of(std::string_view(text).substr(colon + 1));
  if (colon > 0 && port && *port <= 65535) return Endpoint{text.substr(0, colon), *port};
  return wrong("--rdzv-endpoint is '{}'; use host or host:port", text);
}

// How many workers, and which of them here. Returns the number of nodes.
Result<int> plan_workers(const RunArguments& arguments, SupervisorOptions& options) {
  Range nodes;
  if (!arguments.workers.empty()) {
    if (!arguments.nnodes.empty() || !arguments.nproc.empty()) {
      return wrong("--workers and --nnodes or --nproc-per-node; use one way to say how many");
    }
    FFDL_ASSIGN_OR_RETURN(const Range workers, parse_range("--workers", arguments.workers));
    options.min_workers = workers.min;
    options.max_workers = options.workers_per_node = workers.max;
  } else {
    if (!arguments.nnodes.empty()) {
      FFDL_ASSIGN_OR_RETURN(nodes, parse_range("--nnodes", arguments.nnodes));
    }
    FFDL_ASSIGN_OR_RETURN(options.workers_per_node, parse_nproc(arguments.nproc));
    options.min_workers = nodes.min * options.workers_per_node;
    options.max_workers = nodes.max * options.workers_per_node;
  }
  options.node = arguments.node_rank < 0 ? 0 : arguments.node_rank;
  if (options.node >= nodes.max) {
    return wrong("--node-rank is {} of {} nodes; use one from 0 on, below --nnodes", options.node,
                 nodes.max);
  }
  return nodes.max;
}

Status check_nodes(const RunArguments& arguments) {
  if (arguments.standalone) {
    return wrong("--standalone with several nodes; a standalone job has one");
  }
  if (arguments.node_rank < 0) {
    return wrong("several nodes and no --node-rank; give each its own, from 0 on");
  }
  if (arguments.job.empty()) {
    return wrong("several nodes and no name of the job; give all the same --job");
  }
  if (arguments.rdzv_endpoint.empty() && arguments.store.empty()) {
    return wrong(
        "several nodes and no place to meet; give all the same --rdzv-endpoint HOST:PORT, where "
        "node 0 serves the store, or the same --store");
  }
  return {};
}

Status plan_store(const RunArguments& arguments, RunPlan& plan) {
  if (!arguments.rdzv_backend.empty() && arguments.rdzv_backend != "c10d" &&
      arguments.rdzv_backend != "static") {
    return wrong("--rdzv-backend is '{}'; use c10d or static, or --store etcd://HOST:PORT",
                 arguments.rdzv_backend);
  }
  if (!arguments.store.empty() && (arguments.standalone || !arguments.rdzv_endpoint.empty())) {
    return wrong("--store and --standalone or --rdzv-endpoint; use one way to name the store");
  }
  if (arguments.standalone && !arguments.rdzv_endpoint.empty()) {
    return wrong("--standalone and --rdzv-endpoint; a standalone job has a store of its own");
  }
  if (arguments.store == "mem://") {
    return wrong("--store is 'mem://', which other processes do not see; use another");
  }
  plan.supervisor.store_url = arguments.store;
  plan.is_private = arguments.store.empty() && arguments.rdzv_endpoint.empty();
  if (plan.is_private) plan.serve = "127.0.0.1:0";
  return {};
}

// What a file says of the job's sizes.
Status plan_profiled_sizes(const RunArguments& arguments, RunPlan& plan) {
  if (!arguments.scaling.empty()) return wrong("--scaling and --profile; give one of them");
  FFDL_ASSIGN_OR_RETURN(const auto jobs, load_job_requests(arguments.profile));
  const SupervisorOptions& options = plan.supervisor;
  for (const SizeOption& size : jobs.front().sizes) {
    const bool is_within =
        size.workers >= options.min_workers && size.workers <= options.max_workers;
    if (is_within) plan.sizes.push_back(size);
  }
  if (jobs.size() == 1 && !plan.sizes.empty()) return {};
  return wrong(
      "--profile '{}' has {} jobs, the first with {} sizes of --workers {}:{}; it should "
      "have one, with such a size",
      arguments.profile, jobs.size(), plan.sizes.size(), options.min_workers, options.max_workers);
}

// What the job tells the autoscaler.
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
  if (arguments.store.empty()) {
    return wrong("--autoscale and no --store; name the one that 'ffdl autoscale' has");
  }
  const SupervisorOptions& options = plan.supervisor;
  if (!arguments.profile.empty()) return plan_profiled_sizes(arguments, plan);
  const auto most = static_cast<size_t>(options.max_workers);
  if (!arguments.scaling.empty() && arguments.scaling.size() != most) {
    return wrong("--scaling has {} numbers and --workers says {}; give one for each of 1 to {}",
                 arguments.scaling.size(), most, most);
  }
  for (int workers = options.min_workers; workers <= options.max_workers; ++workers) {
    // Where nothing is known: each worker more is of less use, so that jobs share alike.
    double value = std::pow(workers, kUnknownScaling);
    if (!arguments.scaling.empty()) value = arguments.scaling[static_cast<size_t>(workers) - 1];
    if (!std::isfinite(value) || value < 0) {
      return wrong("--scaling says {} of {} workers; give 0 or more", value, workers);
    }
    plan.sizes.push_back({workers, value, 0});
  }
  return {};
}

Status check_policy(const RunArguments& arguments) {
  if (!arguments.policy.empty() && arguments.autoscale) {
    return wrong("--policy and --autoscale; use one to say how large the job is");
  }
  if (arguments.policy.empty() && !arguments.policy_log.empty()) {
    return wrong("--policy-log is for --policy; give both");
  }
  return {};
}

// Where torchrun's programs make their own rendezvous.
void plan_master(const RunArguments& arguments, const std::optional<Endpoint>& endpoint,
                 bool several, SupervisorOptions& options) {
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

int options_end(const CLI::App& run, int argc, const char* const* argv) {
  int at = 2;  // after "ffdl run"
  while (at < argc) {
    const std::string word = argv[at];
    if (word == "--" || word.empty() || word.front() != '-' || word == "-") break;
    const CLI::Option* option = run.get_option_no_throw(word);
    const bool is_flag = option != nullptr && option->get_items_expected_max() == 0;
    at += is_flag || word.find('=') != word.npos ? 1 : 2;
  }
  return std::min(at, argc);
}

Result<RunPlan> plan_run(const RunArguments& arguments) {
  RunPlan plan;
  SupervisorOptions& options = plan.supervisor;
  FFDL_ASSIGN_OR_RETURN(const int nodes, plan_workers(arguments, options));
  if (nodes > 1) FFDL_RETURN_IF_ERROR(check_nodes(arguments));
  FFDL_RETURN_IF_ERROR(plan_store(arguments, plan));
  if (arguments.autoscale && nodes > 1) {
    return wrong("--autoscale with several nodes; such a job has one");
  }
  FFDL_RETURN_IF_ERROR(plan_sizes(arguments, plan));
  FFDL_RETURN_IF_ERROR(check_policy(arguments));
  FFDL_ASSIGN_OR_RETURN(options.command, plan_command(arguments));
  std::optional<Endpoint> endpoint;
  if (!arguments.rdzv_endpoint.empty()) {
    FFDL_ASSIGN_OR_RETURN(endpoint, parse_endpoint(arguments.rdzv_endpoint));
    const std::string address = fmt::format("{}:{}", endpoint->host, endpoint->port);
    (options.node == 0 ? plan.serve : options.store_url) =
        options.node == 0 ? address : "tcp://" + address;
  }
  plan_master(arguments, endpoint, nodes > 1, options);
  if (nodes > 1 && !arguments.store.starts_with("etcd://")) {
    plan.warning = fmt::format(
        "several nodes share a store that one host keeps ('{}'): the job does not survive the loss "
        "of that host; where it must, use --store etcd://HOST:PORT",
        arguments.store.empty() ? arguments.rdzv_endpoint : arguments.store);
  }
  options.job = arguments.job;
  options.max_restarts = arguments.max_restarts;
  options.grace =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.grace_s));
  options.store_secret = arguments.store_secret;
  options.log_folder = arguments.log_dir;
  options.ledger_log = arguments.ledger_log;
  return plan;
}

}  // namespace ffdl::cli
