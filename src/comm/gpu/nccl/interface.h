#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

// Declares the part of NCCL's C interface that ffdl calls, as in its documentation and header. NCCL
// keeps these names, numbers and layouts within version 2. They are written out so that any build
// can load the library. If NCCL's header is found, a test compares the two.
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
namespace ffdl::comm::nccl {

using Comm = struct CommOfNccl*;
using Stream = void*;

struct UniqueId {
  char internal[128];
};

enum class Code : int32_t {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 8,
};

enum class Type : int32_t {
  kInt8 = 0,
  kInt32 = 2,
  kInt64 = 4,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBFloat16 = 9,
};

enum class Op : int32_t { kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kMean = 4 };

// The layout of version 2.14, the first that has it, as in `version`. Later libraries treat the
// members that they have added since as not set.
struct Config {
  size_t size = sizeof(Config);
  uint32_t magic = 0xcafebeef;
  uint32_t version = 21400;
  int32_t blocking = INT_MIN;
};

// Flag of shrink(): operations may run, and are ended first.
inline constexpr int kShrinkAbort = 1;

// Flag of suspend(): the memory that holds nothing between operations.
inline constexpr int kSuspendMemory = 1;
enum class MemoryStat : int32_t { kSuspendable = 0 };  // in bytes

// The functions, found by their names.
struct Functions {
  Code (*get_version)(int* version);
  Code (*get_unique_id)(UniqueId* id);
  Code (*init_rank)(Comm* comm, int ranks, UniqueId id, int rank, Config* config);
  Code (*get_async_error)(Comm comm, Code* code);
  Code (*finalize)(Comm comm);
  Code (*destroy)(Comm comm);
  Code (*abort)(Comm comm);
  const char* (*get_error_string)(Code code);
  const char* (*get_last_error)(Comm comm);
  Code (*all_reduce)(const void* in, void* out, size_t count, Type type, Op op, Comm comm,
                     Stream stream);
  Code (*reduce_scatter)(const void* in, void* out, size_t out_count, Type type, Op op, Comm comm,
                         Stream stream);
  Code (*reduce)(const void* in, void* out, size_t count, Type type, Op op, int root, Comm comm,
                 Stream stream);
  Code (*all_gather)(const void* in, void* out, size_t in_count, Type type, Comm comm,
                     Stream stream);
  Code (*broadcast)(const void* in, void* out, size_t count, Type type, int root, Comm comm,
                    Stream stream);
  Code (*send)(const void* in, size_t count, Type type, int peer, Comm comm, Stream stream);
  Code (*recv)(void* out, size_t count, Type type, int peer, Comm comm, Stream stream);
  Code (*group_start)();
  Code (*group_end)();
  // The functions of later versions; null if the library lacks them. 2.23:
  Code (*init_rank_scalable)(Comm* comm, int ranks, int rank, int ids, UniqueId* id,
                             Config* config);
  // 2.27: makes a world without some of the ranks, for the others.
  Code (*shrink)(Comm comm, int* excluded, int count, Comm* made, Config* config, int flags);
  // 2.28: ends what runs; the communicator can be shrunk afterwards.
  Code (*revoke)(Comm comm, int flags);
  // 2.29: makes a world with more ranks, for all of them. Newcomers call it without a communicator.
  Code (*get_grow_id)(Comm comm, UniqueId* id);
  Code (*grow)(Comm comm, int ranks, const UniqueId* id, int rank, Comm* made, Config* config);
  // 2.29.7: frees memory and takes it again, at all ranks together. memory_stats fails if NCCL is
  // configured not to account for its memory.
  Code (*suspend)(Comm comm, int flags);
  Code (*resume)(Comm comm);
  Code (*memory_stats)(Comm comm, MemoryStat stat, uint64_t* value);
};

}  // namespace ffdl::comm::nccl
