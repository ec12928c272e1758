#include "cli/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/resource_limit.h"
#include "cli/print.h"

namespace ffdl::cli {
namespace {

// For a store of another process to learn how a command ended.
constexpr Duration kTellPatience = std::chrono::milliseconds(600);

bool is_ignored(int signal) {
  struct sigaction action = {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Returns the signals that are blocked. A blocked signal would be read even if it is ignored.
sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGCONT}) sigaddset(&set, signal);
  for (const int signal : {SIGHUP, SIGTSTP}) {
    if (!is_ignored(signal)) sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

void block_signals() {
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void block_file_size_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Duration stand_still() {
  const Time begin = system_runtime().now();
  sigset_t going_on;
  sigemptyset(&going_on);
  sigaddset(&going_on, SIGCONT);
  const timespec none = {};
  // The kernel drops a pending SIGCONT with the next stop, so that nothing would end that stop.
  if (::sigtimedwait(&going_on, nullptr, &none) != SIGCONT) {
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    ::raise(SIGTSTP);
    ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // the kernel stops this process here
    ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  }
  return system_runtime().now() - begin;
}

Result<std::unique_ptr<SignalWatch>> SignalWatch::start(std::function<void(int signal)> on_end) {
  auto started = std::unique_ptr<SignalWatch>(new SignalWatch);
  SignalWatch* const watch = started.get();
  const sigset_t set = watched();
  watch->signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  watch->end_ = ::eventfd(0, EFD_CLOEXEC);
  if (watch->signals_ < 0 || watch->end_ < 0) {
    return base::system_failure("wait for signals", errno, "try again", StatusCode::kExhausted);
  }
  watch->call_instead({.on_end = std::move(on_end)});
  const auto body = [watch](const StopToken& stop) {
    while (!stop.stop_requested()) {
      std::array<pollfd, 2> ready = {{{watch->signals_, POLLIN, 0}, {watch->end_, POLLIN, 0}}};
      ::poll(ready.data(), ready.size(), -1);
      signalfd_siginfo signal{};
      if (::read(watch->signals_, &signal, sizeof signal) == sizeof signal) {
        watch->handle(static_cast<int>(signal.ssi_signo));
      }
    }
  };
  watch->task_ = system_runtime().spawn("ffdl-signals", body);
  if (watch->task_ != nullptr) return started;
  return Status(StatusCode::kExhausted,
                "wait for signals: the system cannot start another thread; end other processes, or "
                "raise 'ulimit -u'");
}

void SignalWatch::handle(int signal) {
  if (signal == SIGCONT) return;  // the kernel has continued this process
  const base::MutexLock lock(mutex_);
  signal == SIGTSTP ? actions_.on_stop() : actions_.on_end(signal);
}

SignalActions SignalWatch::call_instead(SignalActions actions) {
  const base::MutexLock lock(mutex_);
  return std::exchange(actions_, std::move(actions));
}

SignalWatch::~SignalWatch() {
  if (task_ != nullptr) {
    task_->request_stop();
    const uint64_t one = 1;
    static_cast<void>(::write(end_, &one, sizeof one));
    task_.reset();
  }
  for (const int fd : {signals_, end_}) {
    if (fd >= 0) ::close(fd);
  }
}

std::function<void(int signal)> end_at_once(std::string state, std::string folder) {
  return [state = std::move(state), folder = std::move(folder)](int signal) {
    print(stderr, "ffdl: {}; {}\n", ::strsignal(signal), state);
    std::error_code ignored;
    if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
    std::_Exit(128 + signal);
  };
}

HandledSignals::HandledSignals(SignalWatch& watch, SignalActions actions)
    : watch_(watch), before_(watch.call_instead(std::move(actions))) {}

HandledSignals::~HandledSignals() { watch_.call_instead(std::move(before_)); }

LastResort::LastResort(std::function<bool()> is_idle, std::function<void(int signal)> end)
    : is_idle_(std::move(is_idle)), end_(std::move(end)), over_(system_runtime().make_event()) {}

LastResort::~LastResort() {
  if (task_ != nullptr) task_->request_stop();
  over_->set();
}

void LastResort::begin(int signal) {
  task_ = system_runtime().spawn("ffdl-end", [this, signal](const StopToken& stop) {
    for (int idle = 0; !stop.stop_requested();
         over_->wait_until(deadline_in(kInterruptCheckInterval))) {
      idle = is_idle_() ? idle + 1 : 0;
      if (idle > kTellPatience / kInterruptCheckInterval) end_(signal);
    }
  });
}

}  // namespace ffdl::cli
