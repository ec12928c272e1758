#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace ffdl::base {
namespace {

// What sched_getattr(2) calls sched_attr, in its first version. The kernel's header for it cannot
// be included beside that of the C library.
struct SchedAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;  // ns: of the ordinary policy a slice
  uint64_t deadline;
  uint64_t period;
};

}  // namespace

Thread::Thread(std::string name, std::function<void(StopToken)> body)
    : thread_([name = std::move(name), body = std::move(body)](StopToken stop) {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        body(std::move(stop));
      }) {}

// A thread of the ordinary policy may name its slice. Where the one that wakes has the shorter one
// it comes first, though the other has not used up its own.
void wake_promptly() {
  constexpr uint64_t kSliceNs = 100'000;  // the shortest
  SchedAttributes own{};
  if (::syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0) return;
  if (own.policy != SCHED_OTHER) return;  // somebody has chosen another for it
  own.runtime = kSliceNs;
  static_cast<void>(::syscall(SYS_sched_setattr, 0, &own, 0));  // refused: as it was before
}

}  // namespace ffdl::base
