#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>

#include "base/errors.h"

namespace ffdl::base {
namespace {

// Repeats the first version of sched_attr, the argument of sched_getattr(2). The kernel's header
// for it cannot be included together with the C library's.
struct SchedAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;  // ns: the slice under the ordinary policy
  uint64_t deadline;
  uint64_t period;
};

// Blocks SIGXFSZ, which would end the process. A write above RLIMIT_FSIZE then returns EFBIG, which
// the writer reports. The dispositions of signals belong to the program.
void block_file_size_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

Thread::Thread(std::string name, std::function<void(StopToken)> body)
    : thread_([name = std::move(name), body = std::move(body)](StopToken stop) {
        block_file_size_signal();
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        body(std::move(stop));
      }) {}

Result<Thread> Thread::start(const std::string& name, std::function<void(StopToken)> body) {
  try {
    return Thread(name, std::move(body));
  } catch (const std::system_error&) {
    return no_thread(name);
  }
}

Status no_thread(std::string_view name) {
  return make_error(StatusCode::kExhausted,
                    "start the thread '{}': the system cannot start another; raise 'ulimit -u', "
                    "'ulimit -v' or the container's limit of processes, or end other threads",
                    name);
}

// Requests a short slice, which the ordinary policy allows. A woken thread with a shorter slice
// preempts a thread that has not used up its own.
void wake_promptly() {
  constexpr uint64_t kSliceNs = 100'000;  // the shortest
  SchedAttributes own{};
  if (::syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0) return;
  if (own.policy != SCHED_OTHER) return;  // another policy was chosen for this thread
  own.runtime = kSliceNs;
  static_cast<void>(::syscall(SYS_sched_setattr, 0, &own, 0));  // if refused, nothing changes
}

}  // namespace ffdl::base
