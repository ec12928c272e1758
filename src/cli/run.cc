#include "cli/run.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/env.h"
#include "base/resource_limit.h"
#include "cli/init_process.h"
#include "cli/job_folder.h"
#include "cli/print.h"
#include "cli/run_arguments.h"
#include "cli/run_store.h"
#include "cli/signals.h"
#include "cli/within.h"
#include "ffdl/cluster/autoscaler.h"
#include "ffdl/launch/running_job.h"
#include "ffdl/membership.h"
#include "ffdl/scaling/elastic_policy.h"
#include "ffdl/store.h"
#include "launch/gpu_count.h"
#include "launch/launcher.h"
#include "launch/node_rank.h"
#include "launch/reserved_port.h"
#include "launch/supervisor.h"

namespace ffdl::cli {
namespace {

// A killed node is gone from the store by then.
constexpr Duration kOthersPatience = std::chrono::seconds(20);

// Two etcds of three that end together leave the third without an answer. So each stays this long,
// while the other nodes read how the job ended.
constexpr Duration kLastReads = std::chrono::seconds(1);

void announce(const RunPlan& plan, const launch::SupervisorOptions& options) {
  print(stderr, "ffdl: job '{}': {} to {} workers, store {}\n", options.job, options.min_workers,
        options.max_workers, options.store_url);
  if (!plan.warning.empty()) print(stderr, "ffdl: {}\n", plan.warning);
}

// Returns the signal handler for the time without workers. It removes `folder`, unless that is
// empty.
std::function<void(int)> end_run(std::string folder) {
  return end_at_once("no worker runs", std::move(folder));
}

// A launcher that counts running processes.
class CountingLauncher final : public launch::Launcher {
 public:
  explicit CountingLauncher(launch::Launcher& launcher) : launcher_(launcher) {}
  Result<int64_t> start(const launch::WorkerCommand& command) override {
    ++running_;  // first: a worker may run before this returns
    auto process = launcher_.start(command);
    if (!process.ok()) --running_;
    return process;
  }
  Status stop(std::string_view name, Duration grace) override {
    return launcher_.stop(name, grace);
  }
  void suspend(const Meanwhile& meanwhile) override { launcher_.suspend(meanwhile); }
  std::optional<launch::WorkerExit> poll_exit() override {
    auto exit = launcher_.poll_exit();
    if (exit) --running_;
    return exit;
  }
  int running() const { return running_; }

 private:
  launch::Launcher& launcher_;
  std::atomic<int> running_ = 0;
};

// Waits for the other nodes, which report how they ended before they leave the store. The store
// must not end before, unless the job is killed.
void wait_for_others(Store& store, const std::string& job, const std::atomic<bool>& is_killed) {
  const Time deadline = deadline_in(kOthersPatience);
  Revision seen = 0;
  bool has_told = false;
  while (!is_killed && deadline_in({}) < deadline) {
    const auto run = read_run(store, job);
    if (!run.ok() || run->nodes.empty()) return;
    if (!std::exchange(has_told, true)) {
      print(stderr,
            "ffdl: waiting up to {} s for {} other nodes to end, because they need this store\n",
            kOthersPatience / std::chrono::seconds(1), run->nodes.size());
    }
    const auto changed =
        store.wait_change("", seen, std::min(deadline, deadline_in(kInterruptCheckInterval)));
    if (changed.ok()) seen = *changed;
    if (!changed.ok() && changed.status().code() != StatusCode::kTimeout) return;
  }
}

// Waits in the autoscaler's queue. `options` receives the number of workers to begin with.
Result<std::unique_ptr<JobTicket>> queue_up(Store& store, const RunPlan& plan,
                                            launch::SupervisorOptions& options, SignalWatch& watch,
                                            std::atomic<int>& signalled) {
  JobRequest request{.name = options.job, .sizes = plan.sizes};
  if (!plan.on_node.empty()) request.only_nodes = {plan.on_node};
  FFDL_ASSIGN_OR_RETURN(auto ticket, JobTicket::enter(store, system_runtime(), request));
  const HandledSignals handled(watch, {.on_end = [&](int signal) { signalled = signal; }});
  print(stderr, "ffdl: job '{}' waits for 'ffdl autoscale' to admit it\n", options.job);
  while (signalled == 0) {
    const auto admitted = ticket->wait_until_admitted(deadline_in(kInterruptCheckInterval));
    if (admitted.status().code() == StatusCode::kTimeout) continue;
    FFDL_RETURN_IF_ERROR(admitted.status());
    options.first_workers = admitted->workers;
    print(stderr, "ffdl: job '{}' starts with {} workers\n", options.job, admitted->workers);
    return ticket;
  }
  return Status(StatusCode::kCancelled,
                fmt::format("run job '{}': it was stopped while it waited for 'ffdl autoscale'",
                            options.job));
}

// Returns false while a print would wait for the reader of standard error, which may be stopped.
bool accepts_errors() {
  pollfd ready = {STDERR_FILENO, POLLOUT, 0};
  return ::poll(&ready, 1, 0) > 0;
}

// Stops this process and its workers. The terminal stops only this one, as each worker is in a
// process group of its own.
void stop_with_workers(launch::Launcher& launcher) {
  Duration stood{};
  launcher.suspend([&](size_t workers) {
    if (accepts_errors()) {
      print(stderr, "ffdl: stopped, with {} workers; continue with 'fg' or SIGCONT\n", workers);
    }
    stood = stand_still();
  });
  print(stderr, "ffdl: goes on, after {} s\n", stood / std::chrono::seconds(1));
}

// Supervises the job. `folder` is removed if the process ends at once; empty: none is.
Status supervise(const launch::SupervisorOptions& options, Store& store, bool others_need_store,
                 const Beside& beside, const std::string& folder, SignalWatch& watch,
                 std::atomic<int>& signalled) {
  std::atomic<bool> is_killed = false;
  const auto exited = system_runtime().make_event();
  FFDL_ASSIGN_OR_RETURN(const auto processes, launch::make_local_launcher(*exited));
  CountingLauncher launcher(*processes);
  FFDL_ASSIGN_OR_RETURN(
      const auto supervisor,
      launch::Supervisor::start(store, system_runtime(), launcher, *exited, options));
  if (options.takes_free_node) {
    print(stderr, "ffdl: job '{}': this is node {}\n", options.job, supervisor->node());
  }
  // Another process may serve the store: a node's lease ends what this node would tell it.
  LastResort last_resort([&] { return launcher.running() == 0; }, end_run(folder));
  const auto on_end = [&](int signal) {
    int none = 0;
    const bool is_first = signalled.compare_exchange_strong(none, signal);
    print(stderr, "ffdl: {}; {}\n", ::strsignal(signal),
          is_first ? "the workers are asked to end; a second signal kills them"
                   : "the workers are killed");
    if (is_first && !others_need_store) last_resort.begin(signal);
    if (is_first) return supervisor->stop();
    is_killed = true;
    supervisor->kill();
  };
  const HandledSignals handled(
      watch, {.on_end = on_end, .on_stop = [&] { stop_with_workers(launcher); }});
  std::shared_ptr<void> companion;
  if (beside) {
    FFDL_ASSIGN_OR_RETURN(companion, beside(store, *supervisor, options));
  }
  Status outcome = supervisor->run();
  companion.reset();
  if (others_need_store) wait_for_others(store, options.job, is_killed);
  return outcome;
}

// Makes the folder of this option, which may have been left out.
Status make_folder(std::string_view option, std::string& path) {
  if (path.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return base::system_failure(fmt::format("run: make the folder '{}'", path), error.value(),
                                fmt::format("give another {}", option));
  }
  path = std::filesystem::absolute(path).string();
  return {};
}

// Returns true if there is nothing to run: the job is done, and was not requested again.
Result<bool> is_done(Store& store, const std::string& job, bool again) {
  if (again) FFDL_RETURN_IF_ERROR(begin_again(store, job));
  FFDL_ASSIGN_OR_RETURN(const JobStatus status, read_job(store, job));
  if (status.completion) {
    print(stderr, "ffdl: job '{}' is done at step {}; give --again to train it again\n", job,
          status.completion->step);
  } else if (!status.ended_servers.empty()) {
    print(stderr,
          "ffdl: job '{}' is done: its parameter server '{}' has ended; give --again to train it "
          "again\n",
          job, status.ended_servers.begin()->first);
  }
  return status.completion || !status.ended_servers.empty();
}

// Returns true if a session or a parameter server has reported the job done; other programs do not
// report it.
bool tell_if_done(Store& store, const std::string& job) {
  const auto status = read_job(store, job);
  if (!status.ok()) return false;
  for (const auto& [name, version] : status->ended_servers) {
    print(stderr, "ffdl: job '{}' is done: parameter server '{}' has ended with version {}\n", job,
          name, version);
  }
  if (!status->completion) return !status->ended_servers.empty();
  const auto& checkpoint = status->checkpoint;
  const bool has_checkpoint = checkpoint && checkpoint->lineage == status->completion->lineage &&
                              checkpoint->step == status->completion->step;
  print(stderr, "ffdl: job '{}' is done: its last step is {}{}\n", job, status->completion->step,
        has_checkpoint ? fmt::format(", saved in checkpoint '{}'", checkpoint->manifest) : "");
  return true;
}

// Warns if no worker logged samples. ElasticLoader logs by itself; another program may not.
void tell_if_none_logged(const std::string& folder, std::filesystem::file_time_type begun) {
  if (folder.empty()) return;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.last_write_time(error) >= begun) return;
  }
  print(stderr,
        "ffdl: --ledger-log '{}': no worker has logged samples there; let the program open a "
        "CommitLog in the folder that FFDL_LEDGER_LOG names\n",
        folder);
}

// Makes the job follow its policy.
Result<std::shared_ptr<void>> follow(const LoadedPolicy& loaded, const std::string& log_file,
                                     Store& store, const launch::SupervisorOptions& options) {
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
      [&](Store& store, launch::Supervisor& supervisor,
          const launch::SupervisorOptions& options) -> Result<std::shared_ptr<void>> {
        if (supervisor.node() != 0) return std::shared_ptr<void>();
        return follow(loaded, arguments.policy_log, store, options);
      },
      signalled);
}

// Adds the variables of other launchers, the number of GPUs, and whether the endpoint is here.
RunArguments on_this_host(RunArguments arguments) {
  arguments.variables = base::environment().launcher;
  const auto visible = arguments.variables.find("CUDA_VISIBLE_DEVICES");
  arguments.gpus = launch::count_gpus(
      visible == arguments.variables.end() ? std::nullopt : std::optional(visible->second));
  const std::string host = endpoint_host(arguments.rdzv_endpoint);
  arguments.is_endpoint_host = !host.empty() && launch::is_endpoint_host(host);
  return arguments;
}

// Checks the script once: Python itself would report it for each worker and each restart.
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

// Returns whether the folder is kept for another run of the job. A node that takes a free rank has
// another folder each time.
bool is_kept(const RunArguments& arguments, const RunPlan& plan) {
  return !arguments.job.empty() && !plan.supervisor.takes_free_node;
}

// Reserves a port for MASTER_PORT until the job has ended, unless `plan` has one: the workers of a
// job of one host use it without agreement. At all addresses, as PyTorch listens.
Result<std::optional<launch::ReservedPort>> reserve_master_port(const RunPlan& plan,
                                                                RunArguments& arguments) {
  std::optional<launch::ReservedPort> port;
  if (plan.supervisor.master_port != 0) return port;
  FFDL_ASSIGN_OR_RETURN(port, launch::ReservedPort::at("0.0.0.0", "give --master-port"));
  arguments.master_port = port->address().port;
  return port;
}

// Makes this node's plan, and takes its folder on this host. Without a rank, the first process at
// the host of the rendezvous endpoint is node 0: it holds the lock of that node's folder.
Result<JobFolder> take_folder(RunArguments arguments, RunPlan& plan) {
  FFDL_ASSIGN_OR_RETURN(plan, plan_run(arguments));
  if (plan.is_first_here) {
    auto folder = JobFolder::create(plan.supervisor.job);
    if (folder.status().code() != StatusCode::kConflict) return folder;
    arguments.is_endpoint_host = false;
    FFDL_ASSIGN_OR_RETURN(plan, plan_run(arguments));
  }
  launch::SupervisorOptions& options = plan.supervisor;
  if (options.job.empty()) options.job = fmt::format("job-{}", ::getpid());
  std::string name = options.job;
  if (options.takes_free_node) {
    name += fmt::format(".node-{:08x}", static_cast<uint32_t>(system_runtime().random()));
  } else if (options.node != 0) {
    name += fmt::format(".node-{}", options.node);
  }
  return JobFolder::create(name, is_kept(arguments, plan));
}

}  // namespace

Status run_job(const RunArguments& given, const Beside& beside, std::atomic<int>& signalled) {
  RunArguments arguments = on_this_host(given);
  FFDL_ASSIGN_OR_RETURN(RunPlan plan, plan_run(arguments));
  FFDL_RETURN_IF_ERROR(expect_script(arguments));
  block_signals();
  FFDL_ASSIGN_OR_RETURN(const auto watch, SignalWatch::start(end_run("")));
  // As torchrun: workers that each compute on all processors wait for each other's threads.
  if (plan.supervisor.workers_per_node > 1) ::setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);
  ::signal(SIGPIPE, SIG_IGN);  // workers continue when their lines have no reader
  if (!arguments.interface.empty()) {
    ::setenv("FFDL_INTERFACE", arguments.interface.c_str(), /*overwrite=*/1);
  }
  if (arguments.tls) ::setenv("FFDL_TLS", "1", /*overwrite=*/1);
  if (arguments.private_files) ::umask(0077);  // workers inherit it
  FFDL_RETURN_IF_ERROR(make_folder("--log-dir", arguments.log_dir));
  FFDL_RETURN_IF_ERROR(make_folder("--ledger-log", arguments.ledger_log));
  const auto begun = std::filesystem::file_time_type::clock::now() - std::chrono::seconds(1);
  FFDL_ASSIGN_OR_RETURN(const auto master_port, reserve_master_port(plan, arguments));
  static_cast<void>(remove_dead_folders());  // 'ffdl doctor' shows the folders that remain
  FFDL_ASSIGN_OR_RETURN(JobFolder folder, take_folder(arguments, plan));
  launch::SupervisorOptions options = plan.supervisor;
  const bool is_named = is_kept(arguments, plan);
  // Names the folder that a signal removes: of a job's own etcd at least the private keys.
  const std::string goes = !is_named               ? folder.path()
                           : plan.etcd_members > 0 ? etcd_folder(folder)
                                                   : "";
  const HandledSignals handled(*watch, {.on_end = end_run(goes)});
  Status outcome;
  bool keeps_record = false;
  {
    auto here = open_run_store(plan, folder, arguments.interface, options);
    outcome = here.status();
    if (outcome.ok()) {
      auto done = is_done(*here->store, options.job, arguments.again);
      outcome = done.status();
      if (done.ok() && *done) {
        if (!is_named) folder.remove();
        return outcome;
      }
    }
    if (outcome.ok()) {
      announce(plan, options);
      std::unique_ptr<JobTicket> ticket;  // its share of the workers, until it has ended
      if (!plan.sizes.empty()) {
        auto admitted = queue_up(*here->store, plan, options, *watch, signalled);
        outcome = admitted.status();
        if (outcome.ok()) ticket = std::move(*admitted);
      }
      if (outcome.ok()) {
        const bool serves = here->is_needed();
        outcome = supervise(options, *here->store, serves, beside, goes, *watch, signalled);
        tell_if_none_logged(options.ledger_log, begun);
        // The store of another process may not answer. A caller that signalled the end does not
        // wait for it.
        const bool asks = serves || signalled == 0;
        const bool is_over = asks && tell_if_done(*here->store, options.job);
        keeps_record = is_over && is_named && here->server != nullptr && here->etcd == nullptr;
        if (plan.etcd_members > 1 && here->etcd->runs_etcd() && signalled == 0) {
          system_runtime().make_event()->wait_until(deadline_in(kLastReads));
        }
      }
    }
  }
  // A job that has a name may be run again: it continues from its store, or is done.
  if (!keeps_record && (outcome.ok() || !is_named)) folder.remove();
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
                     "Number of workers, N or MIN:MAX (default 1). N means N:N. MAX workers start, "
                     "unless --start is set. The job fails if fewer than MIN workers can run or "
                     "restart.");
  command
      .add_option("--start", to.start,
                  "Initial number of workers, from MIN to MAX (default MAX); 'ffdl scale' changes "
                  "the number later")
      ->check(within(1, kCountMax));
  command.add_option("--nnodes", to.nnodes,
                     "Number of nodes of the job, N or MIN:MAX; start 'ffdl run' on each node");
  command.add_option(
      "--nproc-per-node,--nproc_per_node", to.nproc,
      "Workers per node (default 1): a number, cpu (one per processor), gpu (one per GPU), or auto "
      "(gpu if the node has GPUs, else cpu)");
  command
      .add_option(
          "--node-rank,--node_rank", to.node_rank,
          "Rank of this node, counted from 0. The default is read from the environment variables "
          "of torchrun, Slurm, MPI or Kubernetes. Without such a variable, node 0 is the node with "
          "the address of --rdzv-endpoint, and each other node takes a free rank.")
      ->check(within(0, kCountMax));
  command
      .add_option("--max-restarts,--max_restarts", to.max_restarts,
                  "Maximum number of restarts of each worker (default 3). By default, a worker "
                  "that fails in its first minute restarts only if a worker has joined the job or "
                  "run for a minute. An earlier failure is probably an error of the program.")
      ->check(within(0, kCountMax));
  command
      .add_option("--grace", to.grace_s,
                  "Seconds that a worker has to end after SIGTERM, before 'ffdl run' kills it")
      ->check(within(0, 1e6))
      ->capture_default_str();
}

void add_places(CLI::App& command, RunArguments& to) {
  command.add_option("--job,--rdzv-id,--rdzv_id", to.job, "Name of the job (default job-PID)");
  command.add_option(
      "--store", to.store,
      "URL of the job's store, or 'etcd' to start an etcd as the store. On 3 or more nodes, 3 "
      "nodes run the etcd, which survives the loss of one node. By default 'ffdl run' starts a "
      "store for this job on one host, and the store is lost with that host.");
  command
      .add_option(
          "--store-secret", to.store_secret,
          "Secret of the store (required if other hosts connect to the store, else generated); "
          "prefer the variable FFDL_STORE_SECRET, because other users can see this option")
      ->envname("FFDL_STORE_SECRET");
  command.add_option("--rdzv-endpoint,--rdzv_endpoint", to.rdzv_endpoint,
                     "Address HOST[:PORT] where node 0 serves the store (default port 29400). If "
                     "--store etcd is not given, the job does not survive the loss of HOST.");
  command
      .add_option("--interface", to.interface,
                  "Interface or network through which other hosts connect to this host's workers "
                  "(default: the interface that this host uses to connect to the store). Examples: "
                  "eth1, 10.1.0.0/16.")
      ->envname("FFDL_INTERFACE");
  command
      .add_flag("--tls", to.tls,
                "Encrypt the connections between workers by TLS 1.3; set this option on all hosts "
                "or on none, because hosts with different settings do not connect")
      ->envname("FFDL_TLS");
  command.add_option(
      "--rdzv-backend,--rdzv_backend", to.rdzv_backend,
      "Rendezvous back end of torchrun; the values c10d and static are accepted for "
      "compatibility, and have no effect");
  command.add_flag("--standalone", to.standalone, "Start a store for only this job (default)");
  command.add_option("--master-addr,--master_addr", to.master_addr,
                     "Value of the environment variable MASTER_ADDR of the workers");
  command
      .add_option("--master-port,--master_port", to.master_port,
                  "Value of the environment variable MASTER_PORT of the workers")
      ->check(within(1, 65535));
  command.add_flag("--private-files", to.private_files,
                   "Use umask 077, so that only this user can access logs, checkpoints and other "
                   "files of the job (default: the umask is unchanged)");
  command.add_option("--log-dir,--log_dir", to.log_dir,
                     "Folder for the workers' output, in one file worker-N.log per worker "
                     "(default: print each line with the prefix [worker-N])");
  command.add_option("--ledger-log", to.ledger_log,
                     "Folder where each worker logs the samples that it commits; 'ffdl data audit' "
                     "checks from these logs that each sample was used once per epoch");
  command.add_flag("--again", to.again,
                   "If the job is already done, train it again from its initial state (default: "
                   "start no worker)");
  command
      .add_option("--on-lost-state", to.on_lost_state,
                  "Action if no member and no checkpoint has the job's state any more: restart "
                  "(from the initial state) or fail (end the members)")
      ->check(CLI::IsMember({"restart", "fail"}))
      ->capture_default_str();
  command.add_flag("-m,--module", to.is_module, "Run PROGRAM as a Python module");
  command
      .add_option("--python", to.python,
                  "Python interpreter, called with -u, for modules and for programs whose name "
                  "ends in .py")
      ->envname("PYTHON_EXEC")
      ->capture_default_str();
  command.add_flag("--no-python,--no_python", to.no_python,
                   "Run the program directly, even if its name ends in .py");
}

// CLI11 would write the program as one of many words.
struct ProgramUsage : CLI::Formatter {
  std::string make_usage(const CLI::App* /*command*/, std::string name) const override {
    return fmt::format("Usage: {} [OPTIONS] [--] PROGRAM [ARGUMENTS]\n", name);
  }
  std::string make_positionals(const CLI::App* /*command*/) const override { return ""; }
};

void add_steering(CLI::App& command, RunArguments& to) {
  command.add_flag("--autoscale", to.autoscale,
                   "Let the 'ffdl autoscale' with the same --store decide when the job starts, and "
                   "how many workers the job has");
  command
      .add_option("--scaling", to.scaling,
                  "If --autoscale is set: speeds with 1, 2, ... workers relative to the speed with "
                  "1 worker. Example: 1,1.9,2.7. The default assumes N^0.8 for N workers.")
      ->delimiter(',')
      ->check(within(0, kCountMax))
      ->allow_extra_args(false);
  command.add_option("--profile", to.profile,
                     "If --autoscale is set: output of 'ffdl profile', or file for 'ffdl plan "
                     "--jobs' with only this job. Set --profile or --scaling, not both.");
  command.add_option("--on-node", to.on_node,
                     "If --autoscale is set: name of this node in 'ffdl offer'. The job gets only "
                     "workers of this node.");
  command.add_option("--policy", to.policy,
                     "YAML or JSON file with a policy that sets the number of workers from the "
                     "job's measurements (docs/guide/policies.md)");
  command.add_option("--policy-log", to.policy_log,
                     "If --policy is set: file to which each decision of the policy is appended; "
                     "'ffdl policy replay' reads this file");
}

}  // namespace

void add_run_options(CLI::App& command, RunArguments& to) {
  command.formatter(std::make_shared<ProgramUsage>());
  add_program(command, to.program);
  add_sizes(command, to);
  add_places(command, to);
}

void add_run_command(CLI::App& app, Status& outcome, int& exit_code) {
  const auto arguments = std::make_shared<RunArguments>();  // shared with the callback below
  CLI::App* command =
      app.add_subcommand("run", "Start the workers of a job, and restart failed workers");
  add_run_options(*command, *arguments);
  add_steering(*command, *arguments);
  command->footer(
      "Python runs a program whose name ends in .py. The first SIGINT, SIGTERM or SIGHUP asks the\n"
      "workers to end; the second kills the workers. SIGTSTP (Ctrl-Z) also stops the workers, and\n"
      "SIGCONT (fg) continues them. docs/guide/launch.md lists the environment variables of a\n"
      "worker. If a node has several workers and OMP_NUM_THREADS is not set, 'ffdl run' sets\n"
      "OMP_NUM_THREADS to 1, as torchrun does.\n\n"
      "Exit codes:\n"
      "  0              all workers finished\n"
      "  1              fewer than MIN workers are left, or the job could not be run\n"
      "  2              the command line is wrong\n"
      "  129, 130, 143  ended by SIGHUP (129), SIGINT (130) or SIGTERM (143)\n\n"
      "Examples:\n  ffdl run --workers 4 ./train --epochs 3\n"
      "  ffdl run --job digits --workers 1:4 train.py\n"
      "  ffdl run --job digits --nnodes 3 --rdzv-endpoint node0 train.py     (on three hosts)\n"
      "  ffdl run --workers 1:4 --policy queue.yaml --policy-log sizes.jsonl train.py\n"
      "  ffdl scale digits 2\n  ffdl status digits --watch");
  command->callback([arguments, &outcome, &exit_code] {
    if (leave_to_child(outcome, exit_code)) return;
    std::atomic<int> signalled = 0;
    const Status ended = run(*arguments, signalled);
    outcome = without_signal(ended, signalled, exit_code);
  });
}

}  // namespace ffdl::cli
