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

// Ended by the side that made it.
using SideStream = std::unique_ptr<void, std::function<void(DeviceStream)>>;
using SideMemory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
using SidePin = std::unique_ptr<void, std::function<void(void*)>>;

struct ShareableSideMemory {
  SideMemory memory{};
  uint64_t bytes = 0;
  ForkPrivateFd descriptor{};
};

// A GPU, as far as the library uses one: device.h as an object, so that tests can have another.
// Threads: any. Errors: those of base/device.h.
class DeviceSide {
 public:
  virtual ~DeviceSide() = default;

  virtual Result<int> in_use() = 0;
  virtual Status use(int device) = 0;
  // Whether this process uses it.
  virtual Result<bool> is_used(int device) = 0;
  // Whether `memory` is the device's.
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

// The GPUs of this machine, which are looked for at the first call.
std::unique_ptr<DeviceSide> gpu_side();

// The calling thread uses `device` while this exists, and then again what it used before, if the
// process uses that: a thread that has chosen none has the first one, and to give it back would be
// to use it. Errors: status().
class DeviceUse {
 public:
  DeviceUse(DeviceSide& side, int device);
  ~DeviceUse();
  DeviceUse(const DeviceUse&) = delete;
  DeviceUse& operator=(const DeviceUse&) = delete;

  const Status& status() const { return status_; }

 private:
  DeviceSide& side_;
  int before_ = -1;  // none to give back
  Status status_;
};

// One GPU, as those know it who compute with arrays in its memory. False: there is none, and arrays
// are the host's. What it is asked for here is its default stream's: it comes behind what the
// program has given that, and before what comes later. Borrows the side. Errors: those of
// base/device.h.
struct Gpu {
  DeviceSide* side = nullptr;
  int number = 0;

  explicit operator bool() const { return side != nullptr; }

  Status run(const ArrayWork& work) const;
  Status copy(void* to, const void* from, uint64_t bytes) const;
  Result<SideMemory> allocate(uint64_t bytes) const;
  Result<SideMemory> allocate_pinned(uint64_t bytes) const;
  // Blocks until all that its default stream was given is done.
  Status wait() const;
};

// The GPU that the options of a public call name, with the side that it is reached by.
struct ChosenGpu {
  std::unique_ptr<DeviceSide> own_side{};  // null: the caller's
  Gpu gpu{};
};
// `number`: none, or below 0 for the one that this thread uses. `other` is the caller's; null: this
// machine's GPUs are looked at, if there is a number. Errors: as DeviceSide::in_use().
Result<ChosenGpu> choose_gpu(std::optional<int> number, DeviceSide* other);

}  // namespace ffdl::base
