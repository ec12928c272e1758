#include "launch/supervisor.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "ffdl/launch/environment.h"
#include "ffdl/launch/running_job.h"
#include "launch/decide_workers.h"
#include "launch/node_board.h"

namespace ffdl::launch {
namespace {

std::string_view name_of(WorkerPhase phase) {
  constexpr std::string_view kNames[] = {"idle",   "running",  "stopping",
                                         "paused", "finished", "lost"};
  return kNames[static_cast<size_t>(phase)];
}

std::string how_it_ended(const WorkerExit& exit) {
  return exit.signal != 0 ? fmt::format("was killed by signal {}", exit.signal)
                          : fmt::format("ended with exit code {}", exit.exit_code);
}

// Returns how many nodes have workers.
int nodes_of(const SupervisorOptions& options) {
  return (options.max_workers - 1) / options.workers_per_node + 1;
}

Status check_options(const SupervisorOptions& options) {
  const int most = static_cast<int>(base::kRanksMax);
  const bool is_name = !options.job.empty() && options.job.size() <= base::kMemberIdMax &&
                       std::all_of(options.job.begin(), options.job.end(),
                                   [](char c) { return c > ' ' && c < '\x7f' && c != '/'; });
  if (!is_name) {
    return base::invalid_argument(
        "run job '{}': it is not a valid name; use 1 to {} letters, digits and signs except '/'",
        options.job, base::kMemberIdMax);
  }
  if (options.command.empty()) {
    return base::invalid_argument("run job '{}': there is no program to run; name one",
                                  options.job);
  }
  if (options.min_workers < 1 || options.max_workers < options.min_workers ||
      options.max_workers > most) {
    return base::invalid_argument("run job '{}': {} to {} workers; use 1 <= MIN <= MAX <= {}",
                                  options.job, options.min_workers, options.max_workers, most);
  }
  if (options.first_workers != 0 && (options.first_workers < options.min_workers ||
                                     options.first_workers > options.max_workers)) {
    return base::invalid_argument(
        "run job '{}': {} workers at the start, but the job has {} to {}; use one of these numbers",
        options.job, options.first_workers, options.min_workers, options.max_workers);
  }
  if (options.workers_per_node < 1 || options.node < 0 || options.node >= nodes_of(options)) {
    return base::invalid_argument(
        "run job '{}': node {} with {} workers per node has none of the job's {} workers; use a "
        "smaller node rank, from 0 on",
        options.job, options.node, options.workers_per_node, options.max_workers);
  }
  if (options.max_restarts < 0 || options.grace < Duration::zero()) {
    return base::invalid_argument(
        "run job '{}': {} restarts and {} s of grace; use numbers from 0 on", options.job,
        options.max_restarts, std::chrono::duration<double>(options.grace).count());
  }
  return {};
}

}  // namespace

class Supervisor::Impl {
 public:
  Impl(Store& store, Runtime& runtime, Launcher& launcher, Event& bell, SupervisorOptions options)
      : runtime_(runtime),
        launcher_(launcher),
        bell_(bell),
        options_(std::move(options)),
        board_(store, runtime, bell, options_.job) {}

  Status open() {
    const int wanted = options_.first_workers == 0 ? options_.max_workers : options_.first_workers;
    const int free = options_.takes_free_node ? nodes_of(options_) - options_.node : 1;
    const auto become = [this](int node) {
      become_node(node);
      return status();
    };
    return board_.open_free(options_.node, free, become, wanted).status();
  }
  int node() const { return node_; }
  Status run();
  void stop() {
    is_stopped_.store(true, std::memory_order_relaxed);  // the event orders it
    bell_.set();
  }
  void kill() {
    is_killed_.store(true, std::memory_order_relaxed);
    stop();
    for (size_t i = 0; i < workers_.size(); ++i) {
      static_cast<void>(launcher_.stop(id_of(i), Duration::zero()));  // it may not run
    }
  }

 private:
  struct Worker {
    WorkerState state;
    int64_t process = 0;
  };

  void become_node(int node) {
    node_ = node;
    first_ = node * options_.workers_per_node;
    workers_.resize(
        static_cast<size_t>(std::min(options_.workers_per_node, options_.max_workers - first_)));
  }
  std::string id_of(size_t index) const { return launch::id_of(first_ + static_cast<int>(index)); }
  std::optional<size_t> index_of(std::string_view id) const;
  NodeStatus status() const;
  NodeFacts facts() const;
  void take_news();
  void take_exit(const WorkerExit& exit);
  void take_report(WorkerState& state, const std::string& id, bool has_any_joined);
  bool has_any_lived_long();
  void tell_restart(const std::string& id, const WorkerState& state) const;
  WorkerCommand command_of(size_t index) const;
  void carry_out(const WorkerDecision& decision);
  void give_up(Status why);

  Runtime& runtime_;
  Launcher& launcher_;
  Event& bell_;
  const SupervisorOptions options_;
  int node_ = 0;   // set by open(), as first_ and the number of workers_
  int first_ = 0;  // number of this node's first worker
  launch::NodeBoard board_;
  std::vector<Worker> workers_;
  launch::NodeBoard::View view_;
  Status over_;                  // the reason why all are stopped
  bool has_lived_long_ = false;  // a worker of this node
  std::atomic<bool> is_stopped_ = false;
  std::atomic<bool> is_killed_ = false;
};

Status Supervisor::Impl::run() {
  while (true) {
    bell_.reset();
    take_news();
    const WorkerDecision decision = launch::decide_workers(facts(), runtime_.now());
    if (decision.verdict == Verdict::kDone) return board_.close(launch::kDoneOutcome);
    if (decision.verdict == Verdict::kEnded) {
      const bool is_failure = over_.code() != StatusCode::kCancelled;
      const Status closed = board_.close(is_failure ? over_.message() : "");
      if (!closed.ok()) base::log_warning("job '{}': {}", options_.job, closed.message());
      return over_;
    }
    if (decision.verdict == Verdict::kTooFew) {
      give_up(base::make_error(StatusCode::kExhausted,
                               "run job '{}': {}; check why the workers failed, or allow more "
                               "restarts with --max-restarts",
                               options_.job, decision.reason));
      continue;
    }
    carry_out(decision);
    board_.publish(status());
    if (over_.ok() || decision.start.empty()) bell_.wait_until(decision.again);
  }
}

void Supervisor::Impl::take_news() {
  for (const auto& [id, has_any_joined] : board_.take_reported()) {
    if (const auto index = index_of(id)) take_report(workers_[*index].state, id, has_any_joined);
  }
  view_ = board_.view();
  for (size_t i = 0; i < workers_.size(); ++i) {
    WorkerState& state = workers_[i].state;
    const bool hands_over = view_.handing_over.contains(first_ + static_cast<int>(i));
    if (hands_over && state.phase == WorkerPhase::kRunning) state.hands_over = true;
  }
  while (const auto exit = launcher_.poll_exit()) take_exit(*exit);
  if (view_.outcome && *view_.outcome != launch::kDoneOutcome) {
    give_up(
        base::make_error(StatusCode::kExhausted,
                         "run job '{}': another node ended the job: {}; check the log of that node",
                         options_.job, *view_.outcome));
  }
  if (Status place = board_.place(); !place.ok()) give_up(std::move(place));
  if (is_stopped_.load(std::memory_order_relaxed)) {
    give_up(base::make_error(StatusCode::kCancelled, "run job '{}': it was asked to stop",
                             options_.job));
  }
}

void Supervisor::Impl::take_report(WorkerState& state, const std::string& id, bool has_any_joined) {
  const bool was_paused = state.phase == WorkerPhase::kPaused;
  state = launch::after_report(state,
                               has_any_joined || has_any_lived_long() || !options_.gives_up_early);
  if (!was_paused) return;
  if (state.phase == WorkerPhase::kPaused) return tell_restart(id, state);
  base::log_warning(
      "job '{}': '{}' failed before any worker had joined; it is not started again, unless "
      "--max-restarts is given",
      options_.job, id);
}

// Returns whether a worker of this node has lived for long, so that the program can work.
bool Supervisor::Impl::has_any_lived_long() {
  for (const Worker& worker : workers_) {
    has_lived_long_ |= worker.state.phase == WorkerPhase::kRunning &&
                       runtime_.now() - worker.state.started >= base::kEarlyFailureMax;
  }
  return has_lived_long_;
}

void Supervisor::Impl::tell_restart(const std::string& id, const WorkerState& state) const {
  const auto pause =
      std::chrono::duration_cast<std::chrono::milliseconds>(state.ready - runtime_.now());
  base::log_warning("job '{}': '{}' starts again (restart {} of {}) in {} ms", options_.job, id,
                    state.restarts, options_.max_restarts, std::max<int64_t>(pause.count(), 0));
}

void Supervisor::Impl::give_up(Status why) {
  if (over_.ok()) over_ = std::move(why);
}

// Returns the worker's index; none: it is no worker of this node.
std::optional<size_t> Supervisor::Impl::index_of(std::string_view id) const {
  const int index = launch::number_of(id) - first_;
  const bool is_ours = index >= 0 && index < static_cast<int>(workers_.size());
  return is_ours ? std::optional(static_cast<size_t>(index)) : std::nullopt;
}

void Supervisor::Impl::take_exit(const WorkerExit& exit) {
  const auto index = index_of(exit.name);
  if (!index) {
    return base::log_warning("job '{}': '{}' {}; it is not a worker of this node, and is ignored",
                             options_.job, exit.name, how_it_ended(exit));
  }
  WorkerState& state = workers_[*index].state;
  const bool was_asked = state.phase == WorkerPhase::kStopping || state.hands_over;
  const Time now = runtime_.now();
  has_lived_long_ |= now - state.started >= base::kEarlyFailureMax;
  state = launch::after_exit(state, exit, options_.max_restarts, now, runtime_.random());
  board_.report_end(exit.name);
  if (was_asked || state.phase == WorkerPhase::kFinished) {
    base::log_info("job '{}': '{}' {}", options_.job, exit.name, how_it_ended(exit));
  } else if (state.phase == WorkerPhase::kPaused) {
    base::log_warning("job '{}': '{}' {}", options_.job, exit.name, how_it_ended(exit));
  } else {
    base::log_warning("job '{}': '{}' {}; it has used its {} restarts", options_.job, exit.name,
                      how_it_ended(exit), options_.max_restarts);
  }
}

NodeFacts Supervisor::Impl::facts() const {
  const int wanted =
      std::clamp(static_cast<int>(view_.wanted.size()), options_.min_workers, options_.max_workers);
  NodeFacts facts{.first = first_,
                  .wanted = launch::scaled(view_.wanted, wanted),
                  .handing_over = view_.handing_over,
                  .min_workers = options_.min_workers,
                  .lost_elsewhere = view_.lost_elsewhere,
                  .is_done_elsewhere = view_.outcome == launch::kDoneOutcome,
                  .is_ending = !over_.ok()};
  for (const Worker& worker : workers_) facts.workers.push_back(worker.state);
  return facts;
}

NodeStatus Supervisor::Impl::status() const {
  NodeStatus node{node_, ::getpid(), options_.min_workers, options_.max_workers};
  for (size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    node.workers.push_back({id_of(i), std::string(name_of(worker.state.phase)), worker.process,
                            worker.state.restarts});
  }
  return node;
}

WorkerCommand Supervisor::Impl::command_of(size_t index) const {
  const launch::WantedWorkers wanted = facts().wanted;
  const auto size = static_cast<int>(wanted.size());
  const int place = launch::place_of(wanted, first_ + static_cast<int>(index));
  const int predecessor = wanted[static_cast<size_t>(place)].takes_over_from;
  int local_size = 0;
  for (const WantedWorker& worker : wanted) {
    const int local = worker.number - first_;
    if (local < static_cast<int>(workers_.size())) local_size = std::max(local_size, local + 1);
  }
  const LaunchEnvironment torchrun = {.rank = place,
                                      .world_size = size,
                                      .local_rank = static_cast<int>(index),
                                      .local_world_size = local_size,
                                      .group_rank = node_,
                                      .role_rank = place,
                                      .role_world_size = size,
                                      .restart_count = workers_[index].state.restarts,
                                      .max_restarts = options_.max_restarts,
                                      .master_address = options_.master_address,
                                      .master_port = options_.master_port,
                                      .run_id = options_.job};
  WorkerCommand command{id_of(index), options_.command, launch_variables(torchrun)};
  for (std::string& variable :
       job_variables({options_.store_url, options_.store_secret, options_.job, id_of(index),
                      options_.min_workers, options_.max_workers,
                      predecessor < 0 ? "" : launch::id_of(predecessor), options_.ledger_log,
                      options_.on_lost_state})) {
    command.environment.push_back(std::move(variable));
  }
  if (!options_.log_folder.empty()) {
    command.log_file = options_.log_folder + "/" + id_of(index) + ".log";
  }
  return command;
}

void Supervisor::Impl::carry_out(const WorkerDecision& decision) {
  const bool at_once = is_killed_.load(std::memory_order_relaxed);
  for (const size_t index : decision.stop) {
    const Status asked = launcher_.stop(id_of(index), at_once ? Duration::zero() : options_.grace);
    if (asked.ok()) base::log_info("job '{}': '{}' is asked to end", options_.job, id_of(index));
    workers_[index].state.phase = WorkerPhase::kStopping;  // if it has ended, its exit comes next
  }
  for (const size_t index : decision.start) {
    const auto process = launcher_.start(command_of(index));
    if (!process.ok()) return give_up(process.status());
    workers_[index].process = *process;
    workers_[index].state.phase = WorkerPhase::kRunning;
    workers_[index].state.started = runtime_.now();
    base::log_info("job '{}': '{}' runs as process {}", options_.job, id_of(index), *process);
  }
}

Result<std::unique_ptr<Supervisor>> Supervisor::start(Store& store, Runtime& runtime,
                                                      Launcher& launcher, Event& exited,
                                                      const SupervisorOptions& options) {
  FFDL_RETURN_IF_ERROR(check_options(options));
  auto impl = std::make_unique<Impl>(store, runtime, launcher, exited, options);
  FFDL_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<Supervisor>(new Supervisor(std::move(impl)));
}

Supervisor::Supervisor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Supervisor::~Supervisor() = default;

int Supervisor::node() const { return impl_->node(); }
Status Supervisor::run() { return impl_->run(); }
void Supervisor::stop() { impl_->stop(); }
void Supervisor::kill() { impl_->kill(); }

}  // namespace ffdl::launch
