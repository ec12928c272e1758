#include "shm/futex.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "base/limits.h"

namespace ffdl::shm {

void Doorbell::ring() {
  // The caller's store is sequentially consistent. Either the sleeper's second check sees it, or
  // the sleeper's mark is seen here.
  if (sleepers.load(std::memory_order_seq_cst) == 0) return;
  sleepers.store(0, std::memory_order_relaxed);
  rings.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void Doorbell::yield() { sched_yield(); }

bool Doorbell::sleep(uint32_t seen, Time deadline) {
  const Time now = std::chrono::steady_clock::now();
  if (now >= deadline) return false;
  const Duration wait = std::min<Duration>(deadline - now, base::kFutexSleepMax);
  const timespec timeout = {.tv_sec = static_cast<time_t>(wait.count() / 1'000'000'000),
                            .tv_nsec = static_cast<long>(wait.count() % 1'000'000'000)};
  syscall(SYS_futex, &rings, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  return true;
}

}  // namespace ffdl::shm
