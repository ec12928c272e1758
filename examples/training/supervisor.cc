#include "training/supervisor.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ffdl/diagnose.h"
#include "ffdl/ps/parameter_server.h"
#include "ffdl/runtime.h"
#include "training/audit.h"
#include "training/child.h"
#include "training/message.h"
#include "training/reporter.h"
#include "training/roles.h"
#include "training/shares.h"

namespace training {
namespace {

using ffdl::Result;
using ffdl::Status;
using ffdl::StatusCode;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kRestartsMax = 5;          // unplanned restarts of one process
constexpr auto kSampleInterval = 250ms;  // minimum time between two validations of the weights
constexpr int kSampleShare = 20;         // within an epoch, validations take one part in so many of
                                         // the time
constexpr auto kKillCheckInterval = 10ms;
constexpr auto kStallMax = 90s;      // without one committed sample
constexpr auto kStopPatience = 10s;  // for the server to fold the rest

double seconds_between(ffdl::Time from, ffdl::Time to) {
  return std::chrono::duration<double>(to - from).count();
}

// One place in the run, with the process that fills it at present.
struct Seat {
  Subject subject;
  std::optional<Child> child;
  bool finished = false;
  bool down = false;  // dead, or not yet training again
  ffdl::Time down_since{};
  bool killed = false;  // by --kill
  int restarts = 0;
  float loss = NAN;
  std::string last_words;
};

// A kill of --kill, due when this share of all samples is committed.
struct PlannedKill {
  double due = 0;
  bool server = false;
};

class Supervisor {
 public:
  Supervisor(const TrainOptions& options, Task& task, Reporter& reporter);

  Status run();

 private:
  Status supervise();
  Status shut_down();

  Status start(Seat& seat);
  Status handle_events();
  Status handle_output(Seat& seat);
  Status handle_exit(Seat& seat);
  Status handle_ready();
  void mark_alive(Seat& seat);

  Status observe();
  bool sample_is_due(ffdl::Time now) const;
  void carry_out_kill(const ffdl::ParameterServerStats& stats);
  void sample(const ffdl::ParameterServerStats& stats, ffdl::Time now);
  Status conclude();

  bool all_learners_finished() const {
    return std::all_of(learners_.begin(), learners_.end(),
                       [](const Seat& seat) { return seat.finished; });
  }
  std::vector<Seat*> seats();
  uint64_t samples_in_all() const {
    return train_samples_ * static_cast<uint64_t>(options_.epochs);
  }

  const TrainOptions& options_;
  Task& task_;
  const uint64_t train_samples_;
  Reporter& reporter_;
  const std::string segment_;
  Descriptor signals_;
  Seat server_;
  std::vector<Seat> learners_;
  std::vector<PlannedKill> kills_;  // in descending order of their time
  std::unique_ptr<ffdl::ParameterServerView> view_;
  std::vector<float> weights_;

  ffdl::Time learning_since_{};
  ffdl::Time learning_until_{};
  // The samples committed at the last two validations. Throughput is measured from the first of
  // them, since the last validation of a run may follow the previous one at once.
  struct Mark {
    ffdl::Time time{};
    uint64_t samples = 0;
  };
  std::array<Mark, 2> marks_{};
  ffdl::Time next_sample_{};
  ffdl::Time last_growth_{};
  uint64_t last_committed_ = 0;
  uint64_t bytes_ = 0;  // to and from the server
};

Descriptor watch_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return Descriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

Supervisor::Supervisor(const TrainOptions& options, Task& task, Reporter& reporter)
    : options_(options),
      task_(task),
      train_samples_(task.sizes().train),
      reporter_(reporter),
      segment_(fmt::format("{}-{}-{:08x}", program_invocation_short_name, getpid(),
                           static_cast<uint32_t>(ffdl::system_runtime().random()))),
      signals_(watch_signals()),
      weights_(task.sizes().parameters) {
  server_.subject.role = "server";
  for (int slot = 0; slot < options.learners; ++slot) {
    learners_.emplace_back().subject = {.role = "learner", .slot = slot};
  }
  if (options.kill) kills_ = {{.due = 2.0 / 3, .server = true}, {.due = 1.0 / 3, .server = false}};
}

Status Supervisor::run() {
  reporter_.started(task_.sizes(), segment_);
  const Status supervised = supervise();
  const Status stopped = shut_down();
  FFDL_RETURN_IF_ERROR(supervised);
  FFDL_RETURN_IF_ERROR(stopped);
  return conclude();
}

Status Supervisor::supervise() {
  FFDL_RETURN_IF_ERROR(start(server_));
  last_growth_ = steady_clock::now();
  while (!all_learners_finished()) {
    FFDL_RETURN_IF_ERROR(handle_events());
    FFDL_RETURN_IF_ERROR(observe());
  }
  learning_until_ = steady_clock::now();
  const ffdl::ParameterServerStats stats = view_->stats();
  last_committed_ = sum_ledger(stats).committed;
  if (last_committed_ != marks_.back().samples) sample(stats, learning_until_);
  return {};
}

// Stops all. Learners may die at any instruction, so they are killed. The server is asked to stop:
// it folds the remaining gradients and removes the segment.
Status Supervisor::shut_down() {
  learners_.clear();
  ExitStatus status;
  if (server_.child) {
    server_.child->signal(SIGTERM);
    pollfd exit{.fd = server_.child->exit_descriptor(), .events = POLLIN, .revents = 0};
    poll(&exit, 1, static_cast<int>(std::chrono::milliseconds(kStopPatience).count()));
    server_.child->signal(SIGKILL);  // without effect on a process that has ended
    status = server_.child->reap();
    server_.child.reset();
  }
  const Status removed = ffdl::remove_segment(segment_);
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  if (status.code == 0 && status.signal == 0) return {};
  return {StatusCode::kInternal,
          fmt::format("stop the server: it {}; read its messages on standard "
                      "error",
                      status.to_string())};
}

Status Supervisor::start(Seat& seat) {
  const bool is_server = &seat == &server_;
  // A server that ran long enough for a view left a segment that can be adopted.
  FFDL_ASSIGN_OR_RETURN(
      seat.child, Child::start(command_line({.role = is_server ? Role::kServer : Role::kLearner,
                                             .options = options_,
                                             .segment = segment_,
                                             .parent = getpid(),
                                             .slot = seat.subject.slot,
                                             .adopt = is_server && view_ != nullptr})));
  seat.subject.pid = seat.child->pid();
  reporter_.spawned(seat.subject);
  return {};
}

std::vector<Seat*> Supervisor::seats() {
  std::vector<Seat*> all{&server_};
  for (Seat& seat : learners_) all.push_back(&seat);
  return all;
}

// Waits until a child writes or ends, a signal arrives or the next validation is due.
Status Supervisor::handle_events() {
  const std::vector<Seat*> all = seats();
  std::vector<pollfd> watched{{.fd = signals_.number(), .events = POLLIN, .revents = 0}};
  for (const Seat* seat : all) {
    // poll() ignores a negative descriptor.
    const bool there = seat->child.has_value();
    watched.push_back(
        {.fd = there ? seat->child->output_descriptor() : -1, .events = POLLIN, .revents = 0});
    watched.push_back(
        {.fd = there ? seat->child->exit_descriptor() : -1, .events = POLLIN, .revents = 0});
  }
  const std::chrono::milliseconds wait = kills_.empty() ? kSampleInterval : kKillCheckInterval;
  poll(watched.data(), watched.size(), static_cast<int>(wait.count()));

  signalfd_siginfo signal{};
  if (read(signals_.number(), &signal, sizeof signal) == sizeof signal) {
    return {StatusCode::kCancelled,
            fmt::format("train: stopped by signal {} ({})", signal.ssi_signo,
                        strsignal(static_cast<int>(signal.ssi_signo)))};
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (watched[1 + 2 * i].revents != 0) FFDL_RETURN_IF_ERROR(handle_output(*all[i]));
    if (watched[2 + 2 * i].revents != 0) FFDL_RETURN_IF_ERROR(handle_exit(*all[i]));
  }
  return {};
}

Status Supervisor::handle_output(Seat& seat) {
  for (const std::string& line : seat.child->take_lines()) {
    const std::optional<Message> message = parse_message(line);
    if (!message) continue;
    switch (message->kind) {
      case Message::Kind::kReady:
        FFDL_RETURN_IF_ERROR(handle_ready());
        break;
      case Message::Kind::kProgress:
        seat.loss = message->loss;
        bytes_ += message->bytes;
        mark_alive(seat);
        break;
      case Message::Kind::kFailed:
        seat.last_words = message->reason;
        break;
    }
  }
  return {};
}

Status Supervisor::handle_ready() {
  mark_alive(server_);
  if (view_ != nullptr) return {};
  FFDL_ASSIGN_OR_RETURN(view_, ffdl::ParameterServerView::open(segment_, ffdl::deadline_in(10s)));
  learning_since_ = steady_clock::now();
  marks_.fill({.time = learning_since_});
  for (Seat& seat : learners_) FFDL_RETURN_IF_ERROR(start(seat));
  return {};
}

void Supervisor::mark_alive(Seat& seat) {
  if (!std::exchange(seat.down, false)) return;
  reporter_.recovered(seat.subject, 1e3 * seconds_between(seat.down_since, steady_clock::now()));
}

Status Supervisor::handle_exit(Seat& seat) {
  FFDL_RETURN_IF_ERROR(handle_output(seat));  // its last output
  const ExitStatus status = seat.child->reap();
  seat.child.reset();
  const bool is_server = &seat == &server_;
  if (status.code == 0 && status.signal == 0 && !is_server) {
    mark_alive(seat);  // its predecessor had left no work
    seat.finished = true;
    return {};
  }
  const std::string who = is_server ? "the server" : fmt::format("learner {}", seat.subject.slot);
  if (status.code == kExitFinal) {
    return {StatusCode::kCancelled, fmt::format("train: {} gave up: {}", who, seat.last_words)};
  }
  if (!std::exchange(seat.killed, false)) {
    reporter_.died(seat.subject, status.to_string());
    seat.down = true;
    seat.down_since = steady_clock::now();
    if (++seat.restarts > kRestartsMax) {
      return {StatusCode::kUnavailable,
              fmt::format("train: {} died {} times, the last time it {}{}{}; read its messages on "
                          "standard error",
                          who, seat.restarts, status.to_string(),
                          seat.last_words.empty() ? "" : ": ", seat.last_words)};
    }
  }
  return start(seat);
}

Status Supervisor::observe() {
  const ffdl::Time now = steady_clock::now();
  if (view_ != nullptr) {
    const ffdl::ParameterServerStats stats = view_->stats();
    const uint64_t committed = sum_ledger(stats).committed;
    if (std::exchange(last_committed_, committed) != committed) last_growth_ = now;
    carry_out_kill(stats);
    if (sample_is_due(now)) sample(stats, now);
  }
  if (now - last_growth_ < kStallMax) return {};
  return {StatusCode::kTimeout,
          fmt::format("train: no sample committed for {} s; is the machine overloaded?",
                      kStallMax.count())};
}

// Validates at each epoch, and within one where validations are cheap.
bool Supervisor::sample_is_due(ffdl::Time now) const {
  const Mark& last = marks_.back();
  if (now - last.time < kSampleInterval) return false;
  return now >= next_sample_ || last_committed_ / train_samples_ > last.samples / train_samples_;
}

void Supervisor::carry_out_kill(const ffdl::ParameterServerStats& stats) {
  if (kills_.empty()) return;
  const double done = static_cast<double>(last_committed_) / static_cast<double>(samples_in_all());
  if (done < kills_.back().due) return;
  Seat* victim = &server_;
  if (!kills_.back().server) {
    // The slowest learner has the most left to do.
    const auto slowest =
        std::min_element(stats.partitions.begin(), stats.partitions.end(),
                         [](const auto& a, const auto& b) { return a.committed < b.committed; });
    victim = &learners_[static_cast<std::size_t>(slowest - stats.partitions.begin())];
  }
  if (!victim->child || victim->down) return;
  kills_.pop_back();
  victim->killed = victim->down = true;
  victim->down_since = steady_clock::now();
  reporter_.killed(victim->subject);
  victim->child->signal(SIGKILL);
}

void Supervisor::sample(const ffdl::ParameterServerStats& stats, ffdl::Time now) {
  float loss = 0;
  int learners = 0;
  for (const Seat& seat : learners_) {
    if (std::isnan(seat.loss)) continue;
    loss += seat.loss;
    ++learners;
  }
  // Before the first mini-batch there is no result; after a failed pull the next validation will
  // do.
  if (learners == 0 || !view_->pull(weights_).ok()) return;
  const Score score = task_.validate(weights_);
  const ffdl::Time done = steady_clock::now();
  next_sample_ = done + kSampleShare * (done - now);
  reporter_.progress(
      {.epoch = static_cast<double>(last_committed_) / static_cast<double>(train_samples_),
       .samples = last_committed_,
       .samples_per_s = static_cast<double>(last_committed_ - marks_.front().samples) /
                        seconds_between(marks_.front().time, now),
       .train_loss = loss / static_cast<float>(learners),
       .val_loss = score.loss,
       .val_accuracy = score.accuracy,
       .staleness_median = median_staleness(stats)});
  marks_ = {marks_.back(), Mark{.time = now, .samples = last_committed_}};
}

Status Supervisor::conclude() {
  // The view outlives the segment's name.
  const ffdl::ParameterServerStats stats = view_->stats();
  FFDL_RETURN_IF_ERROR(view_->pull(weights_).status());
  FFDL_RETURN_IF_ERROR(audit(stats, train_samples_, static_cast<uint64_t>(options_.epochs)));
  if (!kills_.empty()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("train: the run ended before {} of the kills; give more --epochs than {}",
                        kills_.size(), options_.epochs)};
  }
  const double learning_s = seconds_between(learning_since_, learning_until_);
  reporter_.finished({.test_accuracy = task_.test(weights_).accuracy,
                      .val_accuracy = task_.validate(weights_).accuracy,
                      .samples_per_s = static_cast<double>(last_committed_) / learning_s,
                      .bytes_per_s = static_cast<double>(bytes_) / learning_s,
                      .seconds = reporter_.seconds(),
                      .ledger = sum_ledger(stats),
                      .stats = stats});
  return {};
}

Status train(const Example& example, const TrainOptions& options,
             std::unique_ptr<Reporter>& reporter) {
  FFDL_ASSIGN_OR_RETURN(const auto task, example.load(options.data));
  const std::size_t train_samples = task->sizes().train;
  if (train_samples < static_cast<std::size_t>(options.learners)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("train: {} learners for {} training samples; use fewer", options.learners,
                        train_samples)};
  }
  FFDL_ASSIGN_OR_RETURN(reporter, Reporter::open(example, options));
  return Supervisor(options, *task, *reporter).run();
}

}  // namespace

int run_supervisor(const Example& example, const TrainOptions& options) {
  // Checked here, once, and not by each of the processes.
  if (options.device == kCuda) {
    const Status found = example.find_device();
    if (!found.ok()) {
      fmt::print(stderr, "{}: {}\n", example.name, found.to_string());
      return kExitNoDevice;
    }
  }
  std::unique_ptr<Reporter> reporter;
  const Status status = train(example, options, reporter);
  if (status.ok()) return 0;
  if (reporter != nullptr) {
    reporter->failed(status);
  } else {
    fmt::print(stderr, "{}: {}\n", example.name, status.to_string());
  }
  return 1;
}

}  // namespace training
