#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/device.h"
#include "ffdl/status.h"

namespace ffdl::base {

// Ended by the side that made it.
using SideStream = std::unique_ptr<void, std::function<void(DeviceStream)>>;
using SideMemory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
using SidePin = std::unique_ptr<void, std::function<void(void*)>>;

// A GPU, as far as the library uses one: device.h as an object, so that tests can have another.
// Threads: any. Errors: those of base/device.h.
class DeviceSide {
 public:
  virtual ~DeviceSide() = default;

  virtual Result<int> in_use() = 0;
  virtual Status use(int device) = 0;
  // Whether `memory` is the device's.
  virtual Result<bool> holds(const void* memory) = 0;
  virtual Result<SideStream> make_stream() = 0;
  virtual Status follow_default(DeviceStream stream) = 0;
  virtual Status follow(DeviceStream stream, DeviceStream leader) = 0;
  virtual Result<bool> is_done(DeviceStream stream) = 0;
  virtual Status wait(DeviceStream stream) = 0;
  virtual Status copy(void* to, const void* from, uint64_t bytes, DeviceStream stream) = 0;
  virtual Result<SidePin> pin(void* pages, uint64_t bytes) = 0;
  virtual Result<SideMemory> allocate(uint64_t bytes) = 0;
  virtual Result<SideMemory> allocate_pinned(uint64_t bytes) = 0;
};

// The GPUs of this machine, which are looked for at the first call.
std::unique_ptr<DeviceSide> gpu_side();

// The calling thread uses `device` while this exists, and then again what it used before.
// Errors: status().
class DeviceUse {
 public:
  DeviceUse(DeviceSide& side, int device);
  ~DeviceUse();
  DeviceUse(const DeviceUse&) = delete;
  DeviceUse& operator=(const DeviceUse&) = delete;

  const Status& status() const { return status_; }

 private:
  DeviceSide& side_;
  int before_ = -1;  // none: it was in use already
  Status status_;
};

}  // namespace ffdl::base
