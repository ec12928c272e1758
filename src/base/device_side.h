#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/array_work.h"
#include "base/device.h"
#include "ffdl/status.h"

namespace ffdl::base {

// Handles that are released by the DeviceSide that made them.
using SideStream = std::unique_ptr<void, std::function<void(DeviceStream)>>;
using SideMemory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
using SidePin = std::unique_ptr<void, std::function<void(void*)>>;

struct ShareableSideMemory {
  SideMemory memory{};
  uint64_t bytes = 0;
  ForkPrivateFd descriptor{};
};

// The functions of device.h as an object, so that tests can replace the GPU.
// Threads: any. Errors: those of base/device.h.
class DeviceSide {
 public:
  virtual ~DeviceSide() = default;

  virtual Result<int> in_use() = 0;
  virtual Status use(int device) = 0;
  // Returns true if this process uses that GPU.
  virtual Result<bool> is_used(int device) = 0;
  // Returns true if `memory` is the device's.
  virtual Result<bool> holds(const void* memory) = 0;
  virtual Result<SideStream> make_stream() = 0;
  virtual Status follow_default(DeviceStream stream) = 0;
  virtual Status follow(DeviceStream stream, DeviceStream leader) = 0;
  virtual Result<bool> is_done(DeviceStream stream) = 0;
  virtual Status wait(DeviceStream stream) = 0;
  virtual Status copy(void* to, const void* from, uint64_t bytes, DeviceStream stream) = 0;
  virtual Status run(const ArrayWork& work, DeviceStream stream) = 0;
  virtual Result<SidePin> pin(void* pages, uint64_t bytes) = 0;
  virtual Result<SideMemory> allocate(uint64_t bytes) = 0;
  virtual Result<SideMemory> allocate_pinned(uint64_t bytes) = 0;
  virtual Result<ShareableSideMemory> allocate_shareable(uint64_t bytes) = 0;
  virtual Result<SideMemory> map_shareable(int descriptor, uint64_t bytes) = 0;
};

// Returns the GPUs of this machine, which are searched for at the first call.
std::unique_ptr<DeviceSide> gpu_side();

// Makes the calling thread use `device` during its lifetime. The destructor restores the previous
// GPU only if this process uses that one. A thread that has chosen none has the first GPU, and
// choosing it would use it. Errors: status().
class DeviceUse {
 public:
  DeviceUse(DeviceSide& side, int device);
  ~DeviceUse();
  DeviceUse(const DeviceUse&) = delete;
  DeviceUse& operator=(const DeviceUse&) = delete;

  const Status& status() const { return status_; }

 private:
  DeviceSide& side_;
  int before_ = -1;  // none to restore
  Status status_;
};

// One GPU for code that computes with arrays in its memory. False: there is none, and the arrays
// are the host's. All work goes to its default stream, in order with the program's own work there.
// Borrows the side. Errors: those of base/device.h.
struct Gpu {
  DeviceSide* side = nullptr;
  int number = 0;

  explicit operator bool() const { return side != nullptr; }

  Status run(const ArrayWork& work) const;
  Status copy(void* to, const void* from, uint64_t bytes) const;
  Result<SideMemory> allocate(uint64_t bytes) const;
  Result<SideMemory> allocate_pinned(uint64_t bytes) const;
  // Blocks until all work enqueued on its default stream is done.
  Status wait() const;
};

// The GPU that the options of a public call name, and its DeviceSide.
struct ChosenGpu {
  std::unique_ptr<DeviceSide> own_side{};  // null: the caller's side is used
  Gpu gpu{};
};
// `number`: none, or below 0 for the GPU that this thread uses. `other` is the caller's side. If it
// is null and there is a number, this machine's GPUs are used. Errors: those of
// DeviceSide::in_use().
Result<ChosenGpu> choose_gpu(std::optional<int> number, DeviceSide* other);

}  // namespace ffdl::base
