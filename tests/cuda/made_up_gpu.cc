#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "base/array_work.h"
#include "base/device.h"
#include "base/device_error.h"
#include "comm/reduce/device_reduce.h"
#include "ffdl/ps/update_rule.h"
#include "support/device_updates.h"
#include "support/host_device.h"
#include "support/reduce_threads.h"

// Defines the functions of cuda/ over the device of the tests. A program that links this file finds
// one GPU on every machine. So code for a GPU runs, except for CUDA itself.
namespace ffdl {
namespace {

using testing::HostDevice;
using testing::ThreadStream;

constexpr uint64_t kMemoryBytes = uint64_t{80} << 30;
constexpr std::align_val_t kAlignment{256};
constexpr uint64_t kKernelThreads = 5;

struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
};

std::byte* allocate_aligned(uint64_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, kAlignment));
}

class MadeUpGpu {
 public:
  // Never ends, since memory may be freed after main().
  static MadeUpGpu& only() {
    static MadeUpGpu* const made = std::make_unique<MadeUpGpu>().release();
    return *made;
  }

  HostDevice& side() { return side_; }

  std::byte* add(base::SideMemory memory, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    std::byte* const begin = memory.get();
    held_[begin] = {std::move(memory), bytes};
    return begin;
  }
  // Waits for all streams, so that a running kernel or copy keeps its memory until it is done.
  void remove(std::byte* begin) {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, owned] : streams_) static_cast<void>(side_.wait(stream));
    held_.erase(begin);
  }
  bool holds(const void* memory) {
    const std::lock_guard lock(mutex_);
    const auto after = held_.upper_bound(static_cast<const std::byte*>(memory));
    if (after == held_.begin()) return false;
    const auto& [begin, held] = *std::prev(after);
    return static_cast<const std::byte*>(memory) < begin + held.bytes;
  }

  void* add(base::SideStream stream) {
    const std::lock_guard lock(mutex_);
    void* const made = stream.get();
    streams_[made] = std::move(stream);
    return made;
  }
  void end(void* stream) {
    base::SideStream ended;
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(stream);
    ended = std::move(found->second);
    streams_.erase(found);
  }

 private:
  struct Held {
    base::SideMemory memory{};
    uint64_t bytes = 0;
  };

  HostDevice side_;
  std::mutex mutex_;
  std::map<const std::byte*, Held> held_;
  std::map<void*, base::SideStream> streams_;
};

HostDevice& side() { return MadeUpGpu::only().side(); }

// Enqueues work to the stream. The default stream runs it at once.
void give(base::DeviceStream stream, std::function<void()> work) {
  if (stream == nullptr) return work();
  static_cast<ThreadStream*>(stream)->enqueue(std::move(work));
}

}  // namespace

namespace base {

Result<DeviceFacts> find_device() {
  return DeviceFacts{.name = "made up",
                     .major = 9,
                     .multiprocessors = 132,
                     .memory_bytes = kMemoryBytes,
                     .driver_version = 13000,
                     .runtime_version = 13000};
}

Result<int> device_in_use() { return 0; }
Result<bool> is_device_used(int device) { return device == 0; }
Status use_device(int device) {
  if (device == 0) return {};
  return device_error("choose a GPU", {.error = 101, .name = "cudaErrorInvalidDevice"});
}

Result<bool> is_device_memory(const void* memory) { return MadeUpGpu::only().holds(memory); }

void FreeDeviceMemory::operator()(std::byte* memory) const { MadeUpGpu::only().remove(memory); }
void UnmapDeviceMemory::operator()(std::byte* memory) const { MadeUpGpu::only().remove(memory); }
void FreePinnedMemory::operator()(std::byte* memory) const { FreeAligned()(memory); }

Result<DeviceMemory> allocate_on_device(uint64_t bytes) {
  if (bytes > kMemoryBytes) {
    return device_error("allocate on the device",
                        {.error = 2, .name = "cudaErrorMemoryAllocation"});
  }
  return DeviceMemory(
      MadeUpGpu::only().add(SideMemory(allocate_aligned(bytes), FreeAligned()), bytes));
}

Result<ShareableDeviceMemory> allocate_shareable_on_device(uint64_t bytes) {
  FFDL_ASSIGN_OR_RETURN(ShareableSideMemory made, side().allocate_shareable(bytes));
  std::byte* const memory = MadeUpGpu::only().add(std::move(made.memory), made.bytes);
  return ShareableDeviceMemory{.memory = MappedDeviceMemory(memory, UnmapDeviceMemory{made.bytes}),
                               .bytes = made.bytes,
                               .descriptor = std::move(made.descriptor)};
}

Result<MappedDeviceMemory> map_on_device(int descriptor, uint64_t bytes) {
  FFDL_ASSIGN_OR_RETURN(SideMemory mapped, side().map_shareable(descriptor, bytes));
  return MappedDeviceMemory(MadeUpGpu::only().add(std::move(mapped), bytes),
                            UnmapDeviceMemory{bytes});
}

Result<PinnedMemory> allocate_pinned(uint64_t bytes) {
  return PinnedMemory(allocate_aligned(bytes));
}

Status copy_on_device(void* to, const void* from, uint64_t bytes, DeviceStream stream) {
  return side().copy(to, from, bytes, stream);
}
Status wait_for_device(DeviceStream stream) { return side().wait(stream); }
Result<bool> device_is_done(DeviceStream stream) {
  return stream == nullptr || side().is_done(stream).value();
}

void EndDeviceStream::operator()(void* stream) const { MadeUpGpu::only().end(stream); }
Result<OwnedDeviceStream> make_device_stream() {
  FFDL_ASSIGN_OR_RETURN(SideStream stream, side().make_stream());
  return OwnedDeviceStream(MadeUpGpu::only().add(std::move(stream)));
}
Status follow_default_stream(DeviceStream stream) { return side().follow_default(stream); }
Status follow_stream(DeviceStream stream, DeviceStream leader) {
  return side().follow(stream, leader);
}

void UnpinPages::operator()(void* pages) const {
  testing::HostPins::of_this_process().remove(pages);
}
Result<PinnedPages> pin_pages(void* pages, uint64_t bytes) {
  FFDL_ASSIGN_OR_RETURN(SidePin pinned, side().pin(pages, bytes));
  return PinnedPages(pinned.release());
}

Status run_on_device(const ArrayWork& work, DeviceStream stream) {
  return side().run(work, stream);
}

}  // namespace base

Status update_on_device(const UpdateRuleOptions& options, const UpdateStep& step,
                        const DeviceUpdate& update, void* stream) {
  FFDL_RETURN_IF_ERROR(ps::check_update(options, step, update));
  give(stream, [=] { testing::run_all_threads(options, step, update, kKernelThreads); });
  return {};
}

namespace comm {

Status reduce_on_device(ReduceOp op, DType type, std::span<const void* const> inputs, void* out,
                        uint64_t count, base::DeviceStream stream) {
  FFDL_RETURN_IF_ERROR(check_reduce(op, type, inputs, out, count));
  DeviceReduce reduce{.input_count = static_cast<uint32_t>(inputs.size()),
                      .is_mean = op == ReduceOp::kMean,
                      .out = out,
                      .count = count};
  std::ranges::copy(inputs, reduce.inputs);
  give(stream, [=] { testing::run_all_threads(op, type, reduce, kKernelThreads); });
  return {};
}

}  // namespace comm
}  // namespace ffdl
