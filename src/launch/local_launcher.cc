#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <deque>
#include <map>
#include <utility>

#include "base/errors.h"
#include "base/mutex.h"
#include "base/resource_limit.h"
#include "base/thread.h"
#include "launch/child.h"
#include "launch/launcher.h"
#include "launch/line_pump.h"

namespace ffdl::launch {
namespace {

// Interval at which the launcher looks at the clock while it waits for a worker that is to end.
// After a longer pause than twice this one, this process stood still.
constexpr Duration kClockInterval = std::chrono::milliseconds(500);

// Starts workers. The kernel signals a child when the thread that started it ends. So one thread,
// which lives as long as the launcher, starts them all.
class LocalLauncher final : public Launcher {
 public:
  LocalLauncher(Event& exited, base::ForkPrivateFd wake, std::unique_ptr<LinePump> lines)
      : exited_(exited), wake_(std::move(wake)), lines_(std::move(lines)) {}

  // Starts the thread. Errors: kExhausted.
  Status begin() {
    FFDL_ASSIGN_OR_RETURN(
        thread_, base::Thread::start("ffdl-launch", [this](const StopToken& stop) { run(stop); }));
    return {};
  }

  ~LocalLauncher() override {
    thread_.request_stop();
    wake();
    thread_.join();
  }

  Result<int64_t> start(const WorkerCommand& command) override {
    Request request{command, {}, system_runtime().make_event()};
    {
      base::MutexLock lock(mutex_);
      requests_.push_back(&request);
    }
    wake();
    request.done->wait_until(kNoDeadline);
    return *std::move(request.outcome);
  }

  Status stop(std::string_view name, Duration grace) override {
    {
      base::MutexLock lock(mutex_);
      const auto found = workers_.find(name);
      if (found == workers_.end()) {
        return base::make_error(StatusCode::kNotFound,
                                "stop '{}': no worker of this name runs; it may have ended", name);
      }
      Worker& worker = found->second;
      if (grace <= Duration::zero()) {
        ::kill(-worker.process, SIGKILL);
        return {};
      }
      ::kill(worker.process, SIGTERM);
      const Time now = system_runtime().now();
      allow_for_standstill(now);
      worker.kill_at = std::min<Time>(worker.kill_at, now + grace);
    }
    wake();
    return {};
  }

  void suspend(const Meanwhile& meanwhile) override {
    const base::MutexLock no_start(start_mutex_);
    const base::MutexLock lock(mutex_);
    const Time begin = system_runtime().now();
    for (const auto& [name, worker] : workers_) ::kill(-worker.process, SIGSTOP);
    meanwhile(workers_.size());
    for (const auto& [name, worker] : workers_) ::kill(-worker.process, SIGCONT);
    move_deadlines(system_runtime().now() - begin);
  }

  std::optional<WorkerExit> poll_exit() override {
    base::MutexLock lock(mutex_);
    if (exits_.empty()) return std::nullopt;
    WorkerExit first = std::move(exits_.front());
    exits_.pop_front();
    return first;
  }

 private:
  struct Request {
    const WorkerCommand& command;
    std::optional<Result<int64_t>> outcome;
    std::unique_ptr<Event> done;
  };
  struct Worker {
    pid_t process = 0;  // not reaped yet: no other process has this number
    base::ForkPrivateFd exit;
    Time kill_at = kNoDeadline;
  };

  void run(const StopToken& stop);
  Result<int64_t> start_here(const WorkerCommand& command);
  void serve_requests();
  void kill_late();
  void allow_for_standstill(Time now) FFDL_REQUIRES(mutex_);
  void move_deadlines(Duration by) FFDL_REQUIRES(mutex_);
  void reap(const std::string& name);
  void wake() const {
    const uint64_t one = 1;
    while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  Event& exited_;
  const base::ForkPrivateFd wake_;
  const std::unique_ptr<LinePump> lines_;
  base::Mutex start_mutex_;  // held until a new process is in workers_; locked before mutex_
  base::Mutex mutex_;
  Time clock_seen_ FFDL_GUARDED_BY(mutex_){};  // see allow_for_standstill()
  std::deque<Request*> requests_ FFDL_GUARDED_BY(mutex_);
  std::map<std::string, Worker, std::less<>> workers_ FFDL_GUARDED_BY(mutex_);
  std::deque<WorkerExit> exits_ FFDL_GUARDED_BY(mutex_);
  base::Thread thread_;
};

// Handles start requests and worker exits. At a stop it kills all workers, and continues until the
// last of them is reaped.
void LocalLauncher::run(const StopToken& stop) {
  while (true) {
    serve_requests();
    std::vector<std::string> names;
    std::vector<pollfd> ready = {{wake_.get(), POLLIN, 0}};
    Time next = kNoDeadline;
    {
      base::MutexLock lock(mutex_);
      if (stop.stop_requested() && workers_.empty()) return;
      for (const auto& [name, worker] : workers_) {
        if (stop.stop_requested()) ::kill(-worker.process, SIGKILL);
        names.push_back(name);
        ready.push_back({worker.exit.get(), POLLIN, 0});
        next = std::min(next, worker.kill_at);
      }
    }
    int patience = -1;
    if (next != kNoDeadline) {
      const Duration most = std::min<Duration>(next - system_runtime().now(), kClockInterval);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(most);
      patience = static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX));
    }
    ::poll(ready.data(), ready.size(), patience);
    uint64_t count = 0;
    static_cast<void>(::read(wake_.get(), &count, sizeof count));
    for (size_t i = 0; i < names.size(); ++i) {
      if (ready[i + 1].revents != 0) reap(names[i]);
    }
    kill_late();
  }
}

void LocalLauncher::serve_requests() {
  while (true) {
    Request* request = nullptr;
    {
      base::MutexLock lock(mutex_);
      if (requests_.empty()) return;
      request = requests_.front();
      requests_.pop_front();
    }
    request->outcome = start_here(request->command);
    request->done->set();
  }
}

Result<int64_t> LocalLauncher::start_here(const WorkerCommand& command) {
  const base::MutexLock start_lock(start_mutex_);
  {
    base::MutexLock lock(mutex_);
    if (workers_.contains(command.name)) {
      return base::make_error(StatusCode::kConflict,
                              "start '{}': a worker of this name runs; wait for its end",
                              command.name);
    }
  }
  FFDL_ASSIGN_OR_RETURN(Child child, start_child(command));
  const std::string prefix = "[" + command.name + "] ";
  if (child.out.valid()) lines_->add(std::move(child.out), prefix, STDOUT_FILENO);
  if (child.errors.valid()) lines_->add(std::move(child.errors), prefix, STDERR_FILENO);
  base::MutexLock lock(mutex_);
  workers_[command.name] = {child.process, std::move(child.exit)};
  return int64_t{child.process};
}

void LocalLauncher::kill_late() {
  base::MutexLock lock(mutex_);
  const Time now = system_runtime().now();
  allow_for_standstill(now);
  for (auto& [name, worker] : workers_) {
    if (now < worker.kill_at) continue;
    ::kill(-worker.process, SIGKILL);
    worker.kill_at = kNoDeadline;
  }
}

// Moves the deadlines by the time in which this process stood still, for example after SIGSTOP. It
// is called at least once per kClockInterval while there is a deadline, and before a new one.
void LocalLauncher::allow_for_standstill(Time now) {
  const Duration late = now - clock_seen_ - kClockInterval;
  if (late > kClockInterval) move_deadlines(late);
  clock_seen_ = now;
}

void LocalLauncher::move_deadlines(Duration by) {
  for (auto& [name, worker] : workers_) {
    if (worker.kill_at != kNoDeadline) worker.kill_at += by;
  }
  clock_seen_ += by;
}

// Reaps a worker. Its process group is killed first, while its number cannot belong to another
// process.
void LocalLauncher::reap(const std::string& name) {
  {
    base::MutexLock lock(mutex_);
    const auto found = workers_.find(name);
    const pid_t process = found->second.process;
    ::kill(-process, SIGKILL);
    int state = 0;
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(process, &state, 0);
    } while (reaped < 0 && errno == EINTR);
    // -1: the surrounding program does not let its children be waited for.
    WorkerExit exit{name, process, reaped < 0 ? -1 : 0};
    if (reaped > 0 && WIFEXITED(state)) exit.exit_code = WEXITSTATUS(state);
    if (WIFSIGNALED(state)) exit.signal = WTERMSIG(state);
    exits_.push_back(std::move(exit));
    workers_.erase(found);
  }
  exited_.set();
}

}  // namespace

Result<std::unique_ptr<Launcher>> make_local_launcher(Event& exited) {
  base::ForkPrivateFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return base::system_failure("make a launcher", errno, "try again", StatusCode::kExhausted);
  }
  FFDL_ASSIGN_OR_RETURN(auto lines, LinePump::start());
  auto made = std::make_unique<LocalLauncher>(exited, std::move(wake), std::move(lines));
  FFDL_RETURN_IF_ERROR(made->begin());
  return std::unique_ptr<Launcher>(std::move(made));
}

}  // namespace ffdl::launch
