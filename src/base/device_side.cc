#include "base/device_side.h"

#include <utility>

namespace ffdl::base {
namespace {

class GpuSide final : public DeviceSide {
 public:
  Result<int> in_use() override { return device_in_use(); }
  Status use(int device) override { return use_device(device); }
  Result<bool> holds(const void* memory) override { return is_device_memory(memory); }
  Result<SideStream> make_stream() override {
    FFDL_ASSIGN_OR_RETURN(OwnedDeviceStream stream, make_device_stream());
    return SideStream(std::move(stream));
  }
  Status follow_default(DeviceStream stream) override { return follow_default_stream(stream); }
  Status follow(DeviceStream stream, DeviceStream leader) override {
    return follow_stream(stream, leader);
  }
  Result<bool> is_done(DeviceStream stream) override { return device_is_done(stream); }
  Status wait(DeviceStream stream) override { return wait_for_device(stream); }
  Status copy(void* to, const void* from, uint64_t bytes, DeviceStream stream) override {
    return copy_on_device(to, from, bytes, stream);
  }
  Result<SidePin> pin(void* pages, uint64_t bytes) override {
    FFDL_ASSIGN_OR_RETURN(PinnedPages pinned, pin_pages(pages, bytes));
    return SidePin(std::move(pinned));
  }
  Result<SideMemory> allocate(uint64_t bytes) override {
    FFDL_ASSIGN_OR_RETURN(DeviceMemory memory, allocate_on_device(bytes));
    return SideMemory(std::move(memory));
  }
  Result<SideMemory> allocate_pinned(uint64_t bytes) override {
    FFDL_ASSIGN_OR_RETURN(PinnedMemory memory, base::allocate_pinned(bytes));
    return SideMemory(std::move(memory));
  }
};

}  // namespace

std::unique_ptr<DeviceSide> gpu_side() { return std::make_unique<GpuSide>(); }

DeviceUse::DeviceUse(DeviceSide& side, int device) : side_(side) {
  const Result<int> before = side.in_use();
  status_ = before.status();
  if (!status_.ok() || *before == device) return;
  status_ = side.use(device);
  if (status_.ok()) before_ = *before;
}

DeviceUse::~DeviceUse() {
  if (before_ >= 0) static_cast<void>(side_.use(before_));
}

}  // namespace ffdl::base
