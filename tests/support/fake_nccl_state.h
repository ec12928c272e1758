#pragma once

#include <atomic>

namespace ffdl::testing {

// How the library of fake_nccl.cc behaves, and what was asked of it. One for all communicators.
struct FakeNccl {
  std::atomic<int> version = 23007;
  // So often a call is said to be in progress.
  std::atomic<int> polls = 0;
  // Every communicator tells of this error, a code of NCCL's.
  std::atomic<int> async_error = 0;
  // Connecting ends at once, with this one.
  std::atomic<int> connect_error = 0;
  // What begins now never ends by itself.
  std::atomic<bool> hangs = false;
  // The other ranks are in other processes: they are said to have come, and give nothing.
  std::atomic<bool> alone = false;

  // A rank whose part in growing or shrinking ends at once, with an error; -1: none.
  std::atomic<int> derive_fails_at = -1;
  // The same when all have come, so that the others have it.
  std::atomic<int> derive_fails_late_at = -1;
  // As long as this is set nobody is told that a world has grown or shrunk.
  std::atomic<bool> derive_hangs = false;

  // It keeps no account of its memory, and gives none back.
  std::atomic<bool> keeps_memory = false;

  // Where a thread of the host finds what the buffers name; null: where they say.
  std::atomic<void* (*)(const void*)> reach = nullptr;

  std::atomic<int> ids = 0;      // that the last communicator was made with
  std::atomic<int> aborted = 0;  // communicators that ended by abort,
  std::atomic<int> left = 0;     // by finalize and destroy,
  std::atomic<int> grown = 0;    // that were made out of others,
  std::atomic<int> shrunk = 0;
  std::atomic<int> revoked = 0;    // whose operations were ended,
  std::atomic<int> suspended = 0;  // whose memory was given back,
  std::atomic<int> resumed = 0;    // and taken again,
  std::atomic<int> alive = 0;      // and that have not ended
  std::atomic<int> misused = 0;  // calls by which NCCL would hang for good, or touch what was freed
  std::atomic<int> waiting = 0;  // parts of operations that wait for other ranks
};

}  // namespace ffdl::testing
