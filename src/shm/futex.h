#pragma once

#include <atomic>
#include <cstdint>

#include "ffdl/types.h"

namespace ffdl::shm {

// A doorbell between processes. A waiting thread rings nothing. A thread that makes a condition
// true wakes others only if one of them sleeps. Both words are in shared memory and start at zero.
// If a waker is killed between its store and ring(), sleepers are only delayed, by kFutexSleepMax.
struct Doorbell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleepers;  // 1: a thread may be asleep

  // Waits until `ready()` or the deadline, and returns the last result of ready(). Spins for about
  // a microsecond, then yields a few times, then sleeps. With more processes than cores, spinning
  // would take the core from the process that is waited for.
  // The store that makes ready() true must be sequentially consistent and precede ring().
  template <class Ready>
  bool wait_until(Ready&& ready, Time deadline) {
    for (int i = 0; i < kSpins; ++i) {
      if (ready()) return true;
      pause();
    }
    for (int i = 0; i < kYields; ++i) {
      if (ready()) return true;
      yield();
    }
    while (!ready()) {
      const uint32_t seen = rings.load(std::memory_order_acquire);
      sleepers.store(1, std::memory_order_seq_cst);  // pairs with exchange in ring()
      if (ready()) return true;
      if (!sleep(seen, deadline)) return ready();
    }
    return true;
  }

  void ring();

 private:
  static constexpr int kSpins = 32;
  static constexpr int kYields = 16;
  static void pause();
  static void yield();
  // Returns false if the deadline has passed.
  bool sleep(uint32_t seen, Time deadline);
};
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(Doorbell) == 8);

}  // namespace ffdl::shm
