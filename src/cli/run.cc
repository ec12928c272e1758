#include "cli/run.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/job_folder.h"
#include "cli/run_arguments.h"
#include "cli/signals.h"
#include "ffdl/autoscaler.h"
#include "ffdl/elastic_policy.h"
#include "ffdl/launcher.h"
#include "ffdl/policy_follower.h"
#include "ffdl/store.h"
#include "ffdl/store_server.h"
#include "ffdl/supervisor.h"

namespace ffdl::cli {
namespace {

// For MASTER_PORT: free now. The workers of a job of one host agree on it without asking.
Result<int> free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  const bool found =
      probe >= 0 && ::bind(probe, plain, size) == 0 && ::getsockname(probe, plain, &size) == 0;
  const int error = errno;
  if (probe >= 0) ::close(probe);
  if (found) return int{ntohs(address.sin_port)};
  return Status(StatusCode::kUnavailable,
                fmt::format("run: find a free port: {}; give --master-port", std::strerror(error)));
}

// A node that was killed is gone from the store by then.
constexpr Duration kOthersPatience = std::chrono::seconds(20);
constexpr Duration kLook = std::chrono::milliseconds(200);  // for a signal meanwhile

struct StoreHere {
  std::unique_ptr<StoreServer> server;  // where this process serves it
  std::unique_ptr<Store> store;
};

// Opens the store, after it has begun to serve it if it must. `options` learns its URL.
Result<StoreHere> open(const RunPlan& plan, const JobFolder& folder, SupervisorOptions& options) {
  StoreHere here;
  if (!plan.serve.empty()) {
    FFDL_ASSIGN_OR_RETURN(here.server, StoreServer::start({.folder = folder.store_folder(),
                                                           .address = plan.serve,
                                                           .secret = options.store_secret}));
    options.store_url = here.server->url();
  }
  FFDL_ASSIGN_OR_RETURN(here.store, open_store(options.store_url, system_runtime(),
                                               {.secret = options.store_secret}));
  FFDL_RETURN_IF_ERROR(folder.write_store_url(options.store_url));
  if (plan.is_private) options.store_url = "tcp://" + folder.store_folder();
  return here;
}

void announce(const RunPlan& plan, const SupervisorOptions& options) {
  fmt::print(stderr, "ffdl: job '{}': {} to {} workers, store {}\n", options.job,
             options.min_workers, options.max_workers, options.store_url);
  if (!plan.warning.empty()) fmt::print(stderr, "ffdl: {}\n", plan.warning);
}

// The other nodes tell the store how they ended before they leave it; it must not end before,
// unless somebody is in a hurry.
void wait_for_others(Store& store, const std::string& job, const std::atomic<bool>& is_killed) {
  const Time deadline = deadline_in(kOthersPatience);
  Revision seen = 0;
  bool has_told = false;
  while (!is_killed && deadline_in({}) < deadline) {
    const auto run = read_run(store, job);
    if (!run.ok() || run->nodes.empty()) return;
    if (!std::exchange(has_told, true)) {
      fmt::print(stderr,
                 "ffdl: waiting up to {} s for {} other nodes to end, which need this store\n",
                 kOthersPatience / std::chrono::seconds(1), run->nodes.size());
    }
    const auto changed = store.wait_change("", seen, std::min(deadline, deadline_in(kLook)));
    if (changed.ok()) seen = *changed;
    if (!changed.ok() && changed.status().code() != StatusCode::kTimeout) return;
  }
}

// Waits in the autoscaler's queue. `options` learns with how many workers the job begins.
Result<std::unique_ptr<JobTicket>> queue_up(Store& store, const RunPlan& plan,
                                            SupervisorOptions& options,
                                            std::atomic<int>& signalled) {
  FFDL_ASSIGN_OR_RETURN(auto ticket, JobTicket::enter(store, system_runtime(),
                                                      {options.job, plan.sizes, plan.on_node}));
  const SignalWatch watch([&](int signal) { signalled = signal; });
  fmt::print(stderr, "ffdl: job '{}' waits for 'ffdl autoscale' to let it in\n", options.job);
  while (signalled == 0) {
    const auto admitted = ticket->wait_until_admitted(deadline_in(kLook));
    if (admitted.status().code() == StatusCode::kTimeout) continue;
    FFDL_RETURN_IF_ERROR(admitted.status());
    options.first_workers = admitted->workers;
    fmt::print(stderr, "ffdl: job '{}' begins with {} workers\n", options.job, admitted->workers);
    return ticket;
  }
  return Status(StatusCode::kCancelled,
                fmt::format("run job '{}': it was stopped while it waited", options.job));
}

Status supervise(const SupervisorOptions& options, Store& store, bool others_need_store,
                 const Beside& beside, std::atomic<int>& signalled) {
  std::atomic<bool> is_killed = false;
  const auto exited = system_runtime().make_event();
  FFDL_ASSIGN_OR_RETURN(const auto launcher, make_local_launcher(*exited));
  FFDL_ASSIGN_OR_RETURN(const auto supervisor,
                        Supervisor::start(store, system_runtime(), *launcher, *exited, options));
  const SignalWatch watch([&](int signal) {
    int none = 0;
    const bool is_first = signalled.compare_exchange_strong(none, signal);
    fmt::print(stderr, "ffdl: {}; {}\n", ::strsignal(signal),
               is_first ? "the workers are asked to end; once more to kill them"
                        : "the workers are killed");
    if (is_first) return supervisor->stop();
    is_killed = true;
    supervisor->kill();
  });
  std::shared_ptr<void> companion;
  if (beside) {
    FFDL_ASSIGN_OR_RETURN(companion, beside(store, *supervisor, options));
  }
  Status outcome = supervisor->run();
  companion.reset();
  if (others_need_store) wait_for_others(store, options.job, is_killed);
  return outcome;
}

// Of this option, which may have been left out.
Status make_folder(std::string_view option, std::string& path) {
  if (path.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("run: make the folder '{}': {}; give another {}", path,
                              error.message(), option));
  }
  path = std::filesystem::absolute(path).string();
  return {};
}

// ElasticLoader logs by itself; another program may know nothing of it.
void tell_if_none_logged(const std::string& folder, std::filesystem::file_time_type begun) {
  if (folder.empty()) return;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.last_write_time(error) >= begun) return;
  }
  fmt::print(stderr,
             "ffdl: --ledger-log '{}': no worker has logged samples there; let the program open a "
             "CommitLog in the folder that FFDL_LEDGER_LOG names\n",
             folder);
}

// Makes the job follow its policy.
Result<std::shared_ptr<void>> follow(const LoadedPolicy& loaded, const std::string& log_file,
                                     Store& store, const SupervisorOptions& options) {
  PolicyFollowerOptions following;
  following.job = options.job;
  following.steady = loaded.steady;
  following.log_file = log_file;
  FFDL_ASSIGN_OR_RETURN(auto follower,
                        PolicyFollower::start(store, system_runtime(), *loaded.policy, following));
  return std::shared_ptr<void>(std::move(follower));
}

Status run(const RunArguments& arguments, std::atomic<int>& signalled) {
  if (arguments.policy.empty() || arguments.node_rank > 0) {
    return run_job(arguments, {}, signalled);
  }
  FFDL_ASSIGN_OR_RETURN(const LoadedPolicy loaded, load_policy(arguments.policy));
  return run_job(
      arguments,
      [&](Store& store, Supervisor&, const SupervisorOptions& options) {
        return follow(loaded, arguments.policy_log, store, options);
      },
      signalled);
}

// Python itself would say so once for each worker, and again for each restart.
Status expect_script(const RunArguments& arguments) {
  const std::string& script = arguments.program.front();
  std::error_code ignored;
  if (arguments.is_module || arguments.no_python || !script.ends_with(".py") ||
      std::filesystem::exists(script, ignored)) {
    return {};
  }
  return Status(StatusCode::kNotFound,
                fmt::format("run '{}': there is no such file in '{}'; check its name and folder",
                            script, std::filesystem::current_path(ignored).string()));
}

}  // namespace

Status run_job(const RunArguments& arguments, const Beside& beside, std::atomic<int>& signalled) {
  FFDL_ASSIGN_OR_RETURN(const RunPlan plan, plan_run(arguments));
  FFDL_RETURN_IF_ERROR(expect_script(arguments));
  SupervisorOptions options = plan.supervisor;
  const bool is_named = !options.job.empty();
  if (!is_named) options.job = fmt::format("job-{}", ::getpid());
  const std::string name =
      options.node == 0 ? options.job : fmt::format("{}.node-{}", options.job, options.node);
  block_signals();
  // As torchrun: workers that each compute on all processors wait for each other's threads.
  if (options.workers_per_node > 1) ::setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);
  ::signal(SIGPIPE, SIG_IGN);  // workers go on when nobody reads their lines any more
  FFDL_RETURN_IF_ERROR(make_folder("--log-dir", options.log_folder));
  FFDL_RETURN_IF_ERROR(make_folder("--ledger-log", options.ledger_log));
  const auto begun = std::filesystem::file_time_type::clock::now() - std::chrono::seconds(1);
  if (options.master_port == 0) {
    FFDL_ASSIGN_OR_RETURN(options.master_port, free_port());
  }
  FFDL_ASSIGN_OR_RETURN(JobFolder folder, JobFolder::create(name));
  Status outcome;
  {
    auto here = open(plan, folder, options);
    outcome = here.status();
    if (outcome.ok()) {
      announce(plan, options);
      std::unique_ptr<JobTicket> ticket;  // its share of the workers, until it has ended
      if (!plan.sizes.empty()) {
        auto admitted = queue_up(*here->store, plan, options, signalled);
        outcome = admitted.status();
        if (outcome.ok()) ticket = std::move(*admitted);
      }
      if (outcome.ok()) {
        outcome = supervise(options, *here->store, here->server != nullptr, beside, signalled);
        tell_if_none_logged(options.ledger_log, begun);
      }
    }
  }
  // A job that has a name may be run again, and go on from what its store says.
  if (outcome.ok() || !is_named) folder.remove();
  return outcome;
}

Status without_signal(const Status& outcome, int signalled, int& exit_code) {
  if (outcome.code() == StatusCode::kInvalidArgument) exit_code = 2;
  if (outcome.code() != StatusCode::kCancelled || signalled == 0) return outcome;
  exit_code = 128 + signalled;
  return {};
}

namespace {

void add_sizes(CLI::App& command, RunArguments& to) {
  command.add_option("--workers", to.workers,
                     "N, or MIN:MAX: starts MAX, and goes on with MIN (default 1)");
  command.add_option("--nnodes", to.nnodes, "nodes, N or MIN:MAX; 'ffdl run' is started on each");
  command.add_option("--nproc-per-node,--nproc_per_node", to.nproc, "workers of a node, or cpu");
  command.add_option("--node-rank,--node_rank", to.node_rank, "of this node, from 0 on")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--max-restarts,--max_restarts", to.max_restarts,
                  "how often each worker is started again")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--grace", to.grace_s, "seconds that a worker has between SIGTERM and SIGKILL")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
}

void add_places(CLI::App& command, RunArguments& to) {
  command.add_option("--job,--rdzv-id,--rdzv_id", to.job, "the job's name (default job-PID)");
  command.add_option("--store", to.store, "URL of the job's store (default: one of its own)");
  command
      .add_option("--store-secret", to.store_secret,
                  "of the store; better by the variable, as others see command lines")
      ->envname("FFDL_STORE_SECRET");
  command.add_option("--rdzv-endpoint,--rdzv_endpoint", to.rdzv_endpoint,
                     "HOST[:PORT] where node 0 serves the store (port 29400)");
  command.add_option("--rdzv-backend,--rdzv_backend", to.rdzv_backend, "c10d or static: no matter");
  command.add_flag("--standalone", to.standalone, "a store of its own, which is the default");
  command.add_option("--master-addr,--master_addr", to.master_addr, "what MASTER_ADDR is to be");
  command.add_option("--master-port,--master_port", to.master_port, "what MASTER_PORT is to be")
      ->check(CLI::Range(1, 65535));
  command.add_option("--log-dir,--log_dir", to.log_dir,
                     "folder for files worker-N.log, instead of lines after [worker-N]");
  command.add_option("--ledger-log", to.ledger_log,
                     "folder where each worker logs the samples that it commits, for 'ffdl data "
                     "audit'");
  command.add_flag("-m,--module", to.is_module, "the program is a Python module");
  command.add_option("--python", to.python, "what runs programs in .py and modules, with -u")
      ->envname("PYTHON_EXEC")
      ->capture_default_str();
  command.add_flag("--no-python,--no_python", to.no_python, "run the program itself, though .py");
}

// The program is no argument that CLI11 knows of.
struct ProgramUsage : CLI::Formatter {
  std::string make_usage(const CLI::App* /*command*/, std::string name) const override {
    return fmt::format("Usage: {} [OPTIONS] [--] PROGRAM [ARGUMENTS]\n", name);
  }
};

void add_steering(CLI::App& command, RunArguments& to) {
  command.add_flag(
      "--autoscale", to.autoscale,
      "'ffdl autoscale' with the same --store says when it begins, and how large it is");
  command
      .add_option("--scaling", to.scaling,
                  "with --autoscale: how fast it is with 1, 2, ... workers, as 1,1.9,2.7")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--profile", to.profile,
                     "with --autoscale, in place of --scaling: what 'ffdl profile' has written, or "
                     "a file for 'ffdl plan --jobs' with this one job");
  command.add_option("--on-node", to.on_node,
                     "with --autoscale: the node of 'ffdl offer' that this is, whose room the job "
                     "shares");
  command.add_option("--policy", to.policy,
                     "file that says how large it is by what it measures (docs/policies.md)");
  command.add_option("--policy-log", to.policy_log,
                     "with --policy: file that every decision is added to, for 'ffdl policy'");
}

}  // namespace

void add_run_options(CLI::App& command, RunArguments& to) {
  command.formatter(std::make_shared<ProgramUsage>());
  add_sizes(command, to);
  add_places(command, to);
}

CLI::App* add_run_command(CLI::App& app, const std::vector<std::string>& program, Status& outcome,
                          int& exit_code) {
  const auto arguments = std::make_shared<RunArguments>();  // shared with the callback below
  CLI::App* command = app.add_subcommand("run", "Run the workers of a job, and keep them running");
  add_run_options(*command, *arguments);
  add_steering(*command, *arguments);
  command->footer(
      "A program whose name ends in .py is run by Python. SIGINT or SIGTERM asks the workers\n"
      "to end, a second one kills them. docs/launch.md lists the variables that a worker finds;\n"
      "several workers of a node find OMP_NUM_THREADS=1 where it is not set, as under torchrun.\n\n"
      "Exit codes: 0 all workers finished; 1 too few workers are left, or the job could not be\n"
      "run; 2 the command line; 130 or 143 ended by SIGINT or SIGTERM.\n\n"
      "Examples:\n  ffdl run --workers 4 ./train --epochs 3\n"
      "  ffdl run --job digits --workers 1:4 train.py\n"
      "  ffdl run --workers 1:4 --policy queue.yaml --policy-log sizes.jsonl train.py\n"
      "  ffdl scale digits 2\n  ffdl status digits --watch");
  command->callback([arguments, &program, &outcome, &exit_code] {
    arguments->program = program;
    std::atomic<int> signalled = 0;
    const Status ended = run(*arguments, signalled);
    outcome = without_signal(ended, signalled, exit_code);
  });
  return command;
}

}  // namespace ffdl::cli
