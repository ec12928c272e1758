#pragma once

#include <atomic>

namespace ffdl::testing {

// The settings of the library of fake_nccl.cc and its counters, one for all communicators.
struct FakeNccl {
  std::atomic<int> version = 23007;
  // The number of calls that report to be in progress.
  std::atomic<int> polls = 0;
  // The error that every communicator reports, a code of NCCL's.
  std::atomic<int> async_error = 0;
  // The error with which connecting ends at once.
  std::atomic<int> connect_error = 0;
  // The text of the last error.
  std::atomic<const char*> last_error = "the fake was told to fail";
  // Operations that begin now never end by themselves.
  std::atomic<bool> hangs = false;
  // The other ranks are in other processes: they count as joined, and give nothing.
  std::atomic<bool> alone = false;

  // The rank whose growth or shrinkage fails at once; -1: none.
  std::atomic<int> derive_fails_at = -1;
  // The rank whose growth or shrinkage fails after all have joined, so that the others succeed; -1:
  // none.
  std::atomic<int> derive_fails_late_at = -1;
  // No rank learns that a world has grown or shrunk.
  std::atomic<bool> derive_hangs = false;

  // The library reports no memory, and releases none.
  std::atomic<bool> keeps_memory = false;

  // Returns the address at which a host thread reaches a buffer; null: the buffer's own.
  std::atomic<void* (*)(const void*)> reach = nullptr;

  std::atomic<int> ids = 0;      // number of ids of the last communicator
  std::atomic<int> aborted = 0;  // communicators ended by abort
  std::atomic<int> left = 0;     // communicators ended by finalize and destroy
  std::atomic<int> grown = 0;    // communicators made from others
  std::atomic<int> shrunk = 0;
  std::atomic<int> revoked = 0;    // communicators with ended operations
  std::atomic<int> suspended = 0;  // communicators with released memory
  std::atomic<int> resumed = 0;    // communicators with restored memory
  std::atomic<int> alive = 0;      // communicators that have not ended
  std::atomic<int> misused = 0;  // calls that would make NCCL hang for good, or touch freed memory
  std::atomic<int> waiting = 0;  // parts of operations that wait for other ranks
};

}  // namespace ffdl::testing
