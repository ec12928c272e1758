#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/fork_private_fd.h"
#include "ffdl/status.h"

// Accesses the GPU of this process. cuda/ defines these functions. In a build without CUDA,
// cuda/no_cuda.cc defines them, and each returns kUnimplemented. The driver is loaded at the first
// call, so programs without such calls need no driver.
// Threads: any. Errors: device_error.h.
namespace ffdl::base {

// A cudaStream_t of the caller. Null is the default stream, which waits for the others.
using DeviceStream = void*;

struct DeviceFacts {
  std::string name{};  // "NVIDIA H100 80GB HBM3"
  int major = 0;       // 9 and 0: sm_90
  int minor = 0;
  uint32_t multiprocessors = 0;
  uint64_t memory_bytes = 0;
  int driver_version = 0;   // the newest CUDA that the driver supports: 13000 is 13.0
  int runtime_version = 0;  // the CUDA of this build
};

// Returns the GPU that this thread uses: the first one unless the thread has chosen another.
Result<DeviceFacts> find_device();

// Return the number of that GPU, and choose another one for this thread's later calls.
Result<int> device_in_use();
Status use_device(int device);
// Returns true if this process uses that GPU, which takes some hundred MiB there. Choosing a GPU by
// use_device() uses it; this query does not.
Result<bool> is_device_used(int device);

// Returns true for memory of a GPU, and for memory that CUDA moves between host and GPU.
Result<bool> is_device_memory(const void* memory);

struct FreeDeviceMemory {
  void operator()(std::byte* memory) const;  // waits until the GPU has done all enqueued work
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDeviceMemory>;

// Allocates memory of the GPU, aligned to 256 bytes.
Result<DeviceMemory> allocate_on_device(uint64_t bytes);

struct UnmapDeviceMemory {
  uint64_t bytes = 0;
  void operator()(std::byte* memory) const;  // no operation there may be in progress
};
using MappedDeviceMemory = std::unique_ptr<std::byte, UnmapDeviceMemory>;

struct ShareableDeviceMemory {
  MappedDeviceMemory memory{};
  uint64_t bytes = 0;  // at least the requested size
  ForkPrivateFd descriptor{};
};

// Allocates memory of the GPU, aligned to 256 bytes, that other processes of this host can map.
// They receive a copy of its descriptor through a socket. The memory lasts while any process has it
// mapped or has the descriptor open, even after the allocating process has died.
Result<ShareableDeviceMemory> allocate_shareable_on_device(uint64_t bytes);
// Maps all `bytes` of the memory that a descriptor names for this thread's GPU, which may be
// another GPU. The allocating process can do it too. The descriptor remains the caller's. Errors:
// also kUnimplemented (the one GPU cannot reach the other's memory).
Result<MappedDeviceMemory> map_on_device(int descriptor, uint64_t bytes);

struct FreePinnedMemory {
  void operator()(std::byte* memory) const;
};
using PinnedMemory = std::unique_ptr<std::byte, FreePinnedMemory>;

// Allocates pinned memory of the host: copies between it and the GPU do not wait.
Result<PinnedMemory> allocate_pinned(uint64_t bytes);

// Copies between the memories of host and GPU in either direction, or inside the GPU's memory. A
// range of the GPU's memory may span several neighbouring allocations. The copy is ordered in
// `stream`. With host memory that is not pinned it may block.
Status copy_on_device(void* to, const void* from, uint64_t bytes, DeviceStream stream);

// Blocks, asleep, until all work enqueued on `stream` is done. Errors: also those of that work. In
// any case no work of it is in progress when this returns.
Status wait_for_device(DeviceStream stream);
// Returns true if all work enqueued on `stream` is done. Does not block. Errors: those of
// wait_for_device().
Result<bool> device_is_done(DeviceStream stream);

struct EndDeviceStream {
  void operator()(void* stream) const;  // work enqueued on it is still done
};
using OwnedDeviceStream = std::unique_ptr<void, EndDeviceStream>;

// Makes a stream of this thread's GPU. It waits for no other stream, and no other stream waits for
// it.
Result<OwnedDeviceStream> make_device_stream();

// Orders all earlier work on the default stream of this thread's GPU before all later work on
// `stream`. Does not block.
Status follow_default_stream(DeviceStream stream);
// Orders all earlier work on `leader` before all later work on `stream`. Both belong to this
// thread's GPU. Does not block.
Status follow_stream(DeviceStream stream, DeviceStream leader);

struct UnpinPages {
  void operator()(void* pages) const;
};
using PinnedPages = std::unique_ptr<void, UnpinPages>;  // the caller owns the memory

// Pins whole pages of the host's memory that exist already. Copies from and to them do not wait,
// and the GPU's copy engines do them alone. Pages that this process has already pinned are refused.
// They must be unpinned before the memory is freed, and while no copy is in progress.
Result<PinnedPages> pin_pages(void* pages, uint64_t bytes);

}  // namespace ffdl::base
