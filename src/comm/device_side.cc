#include "comm/device_side.h"

#include <utility>

namespace ffdl::comm {
namespace {

class GpuSide final : public DeviceSide {
 public:
  Result<int> in_use() override { return base::device_in_use(); }
  Status use(int device) override { return base::use_device(device); }
  Result<bool> holds(const void* memory) override { return base::is_device_memory(memory); }
  Result<SideStream> make_stream() override {
    FFDL_ASSIGN_OR_RETURN(base::OwnedDeviceStream stream, base::make_device_stream());
    return SideStream(std::move(stream));
  }
  Status follow_default(base::DeviceStream stream) override {
    return base::follow_default_stream(stream);
  }
  Result<bool> is_done(base::DeviceStream stream) override { return base::device_is_done(stream); }
  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    return base::copy_on_device(to, from, bytes, stream);
  }
  Result<SideMemory> allocate(uint64_t bytes) override {
    FFDL_ASSIGN_OR_RETURN(base::DeviceMemory memory, base::allocate_on_device(bytes));
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

}  // namespace ffdl::comm
