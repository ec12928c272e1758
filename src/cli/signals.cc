#include "cli/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace ffdl::cli {
namespace {

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void block_signals() {
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(std::function<void(int signal)> on_signal) {
  const sigset_t set = watched();
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  end_ = ::eventfd(0, EFD_CLOEXEC);
  const auto body = [this, call = std::move(on_signal)](const StopToken& stop) {
    while (!stop.stop_requested()) {
      std::array<pollfd, 2> ready = {{{signals_, POLLIN, 0}, {end_, POLLIN, 0}}};
      ::poll(ready.data(), ready.size(), -1);
      signalfd_siginfo signal{};
      if (::read(signals_, &signal, sizeof signal) == sizeof signal) {
        call(static_cast<int>(signal.ssi_signo));
      }
    }
  };
  task_ = system_runtime().spawn("ffdl-signals", body);
}

SignalWatch::~SignalWatch() {
  task_->request_stop();
  const uint64_t one = 1;
  static_cast<void>(::write(end_, &one, sizeof one));
  task_.reset();
  ::close(signals_);
  ::close(end_);
}

}  // namespace ffdl::cli
