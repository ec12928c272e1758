#pragma once

#include <signal.h>

#include <cerrno>
#include <ctime>

namespace ffdl::base {

// Blocks the signal of a failed write, SIGPIPE or SIGXFSZ, in this thread and in threads that it
// starts meanwhile. The write then returns EPIPE or EFBIG. The destructor takes a pending signal
// away and restores the mask. Signal handlers remain the program's.
class HeldSignal {
 public:
  explicit HeldSignal(int signal) : signal_(signal) {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, signal_) == 1;
    const sigset_t only = only_it();
    pthread_sigmask(SIG_BLOCK, &only, &before_);
  }
  // Preserves errno.
  ~HeldSignal() {
    constexpr timespec kAtOnce{};
    const int error = errno;
    const sigset_t only = only_it();
    if (!was_pending_) sigtimedwait(&only, nullptr, &kAtOnce);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  HeldSignal(const HeldSignal&) = delete;
  HeldSignal& operator=(const HeldSignal&) = delete;

 private:
  sigset_t only_it() const {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal_);
    return set;
  }

  const int signal_;
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace ffdl::base
