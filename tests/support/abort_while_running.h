#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "support/started_program.h"

namespace ffdl::testing {

// Runs `operate` on each rank again and again, on `bytes` of its own memory. Aborts rank 0 after
// some operations. When abort() has returned, the memory of rank 0 is inaccessible: a thread that
// touches it then is killed. No operation that rank 0 begins later may succeed.
inline void abort_while_running(
    const Ranks& ranks, size_t bytes, int operations_before,
    const std::function<Status(Communicator& communicator, int rank, void* memory)>& operate) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::atomic<int> operations = 0;
  std::atomic<bool> aborted = false;
  std::thread aborter([&] {
    EXPECT_TRUE(comes_true([&] { return operations >= operations_before; }));
    ranks[0]->abort({});
    mprotect(memory, bytes, PROT_NONE);
    aborted = true;
  });
  on_each(ranks, [&](Communicator& communicator, int rank) {
    std::vector<double> own(rank == 0 ? 0 : bytes / sizeof(double));
    while (true) {
      const bool late = aborted.load();
      if (!operate(communicator, rank, rank == 0 ? memory : own.data()).ok()) break;
      ASSERT_FALSE(late && rank == 0);
      ++operations;
    }
  });
  aborter.join();
  munmap(memory, bytes);
}

}  // namespace ffdl::testing
