#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/fork_private_fd.h"
#include "ffdl/status.h"

// The GPU of this process, as far as the library uses one. cuda/ defines these; in a build without
// CUDA cuda/no_cuda.cc does, and each of them is kUnimplemented. The driver is loaded at the first
// call: programs that make none need none.
// Threads: any. Errors: device_error.h.
namespace ffdl::base {

// A cudaStream_t of the caller; null is the default stream, which waits for others.
using DeviceStream = void*;

struct DeviceFacts {
  std::string name{};  // "NVIDIA H100 80GB HBM3"
  int major = 0;       // 9 and 0: sm_90
  int minor = 0;
  uint32_t multiprocessors = 0;
  uint64_t memory_bytes = 0;
  int driver_version = 0;   // the newest CUDA that the driver knows: 13000 is 13.0
  int runtime_version = 0;  // the CUDA of this build
};

// The GPU that this thread uses: the first one, if it has not chosen another.
Result<DeviceFacts> find_device();

// The number of that GPU, and the choice of another for what this thread calls from now on.
Result<int> device_in_use();
Status use_device(int device);
// Whether this process uses that GPU, which takes some hundred MiB there. To choose it is to use
// it, to ask is not. After a use_device().
Result<bool> is_device_used(int device);

// Whether it lies in a GPU's memory, or in memory that CUDA moves between host and GPU.
Result<bool> is_device_memory(const void* memory);

struct FreeDeviceMemory {
  void operator()(std::byte* memory) const;  // waits until the GPU has done all that it was given
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDeviceMemory>;

// Memory of the GPU, aligned to 256 bytes.
Result<DeviceMemory> allocate_on_device(uint64_t bytes);

struct UnmapDeviceMemory {
  uint64_t bytes = 0;
  void operator()(std::byte* memory) const;  // nothing may be under way there
};
using MappedDeviceMemory = std::unique_ptr<std::byte, UnmapDeviceMemory>;

struct ShareableDeviceMemory {
  MappedDeviceMemory memory{};
  uint64_t bytes = 0;  // at least what was asked for
  ForkPrivateFd descriptor{};
};

// Memory of the GPU, aligned to 256 bytes, that other processes of this host can map: by its
// descriptor, of which they get a copy through a socket. It lasts while anybody has it mapped or
// has the descriptor open, also when the process that allocated it has died.
Result<ShareableDeviceMemory> allocate_shareable_on_device(uint64_t bytes);
// All `bytes` of what a descriptor names, for this thread's GPU, which may be another one. In the
// process that allocated it, too. The descriptor stays the caller's. Errors: also kUnimplemented
// (the one GPU does not reach the other's memory).
Result<MappedDeviceMemory> map_on_device(int descriptor, uint64_t bytes);

struct FreePinnedMemory {
  void operator()(std::byte* memory) const;
};
using PinnedMemory = std::unique_ptr<std::byte, FreePinnedMemory>;

// Memory of the host that stays where it is: copies between it and the GPU do not wait.
Result<PinnedMemory> allocate_pinned(uint64_t bytes);

// Between the memories of host and GPU, each way, or inside the GPU's, whose part may be of several
// allocations that are neighbours. In the order of `stream`; from or to memory of the host that is
// not pinned it may also wait.
Status copy_on_device(void* to, const void* from, uint64_t bytes, DeviceStream stream);

// Blocks, asleep, until all that `stream` was given is done. Errors: also those of what it was
// given; in any case nothing of it is under way when this returns.
Status wait_for_device(DeviceStream stream);
// The same as a question. Does not block.
Result<bool> device_is_done(DeviceStream stream);

struct EndDeviceStream {
  void operator()(void* stream) const;  // what it was given is still done
};
using OwnedDeviceStream = std::unique_ptr<void, EndDeviceStream>;

// Of this thread's GPU. It waits for no other stream, nor they for it.
Result<OwnedDeviceStream> make_device_stream();

// What the default stream of this thread's GPU was given until now comes before what `stream` is
// given from now on. Does not block.
Status follow_default_stream(DeviceStream stream);
// The same for what `leader` was given. Both streams are of this thread's GPU.
Status follow_stream(DeviceStream stream, DeviceStream leader);

struct UnpinPages {
  void operator()(void* pages) const;
};
using PinnedPages = std::unique_ptr<void, UnpinPages>;  // the memory itself is the caller's

// Whole pages of the host's memory that are there already: copies from and to them do not wait, and
// the GPU's copy engines make them alone. Pages that this process has pinned at these addresses are
// refused. They are unpinned before the memory goes, and when no copy is under way.
Result<PinnedPages> pin_pages(void* pages, uint64_t bytes);

}  // namespace ffdl::base
