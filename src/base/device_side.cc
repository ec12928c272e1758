#include "base/device_side.h"

#include <utility>

namespace ffdl::base {
namespace {

class GpuSide final : public DeviceSide {
 public:
  Result<int> in_use() override { return device_in_use(); }
  Status use(int device) override { return use_device(device); }
  Result<bool> is_used(int device) override { return is_device_used(device); }
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
  Status run(const ArrayWork& work, DeviceStream stream) override {
    return run_on_device(work, stream);
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
  Result<ShareableSideMemory> allocate_shareable(uint64_t bytes) override {
    FFDL_ASSIGN_OR_RETURN(ShareableDeviceMemory made, allocate_shareable_on_device(bytes));
    return ShareableSideMemory{.memory = SideMemory(std::move(made.memory)),
                               .bytes = made.bytes,
                               .descriptor = std::move(made.descriptor)};
  }
  Result<SideMemory> map_shareable(int descriptor, uint64_t bytes) override {
    FFDL_ASSIGN_OR_RETURN(MappedDeviceMemory memory, map_on_device(descriptor, bytes));
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
  if (!status_.ok()) return;
  const Result<bool> used = side.is_used(*before);
  if (!used.ok() || *used) before_ = *before;
}

DeviceUse::~DeviceUse() {
  if (before_ >= 0) static_cast<void>(side_.use(before_));
}

namespace {

// Calls `ask` with the GPU's side while this thread uses that GPU.
template <class Ask>
auto with(const Gpu& gpu, const Ask& ask) -> decltype(ask(*gpu.side)) {
  const DeviceUse use(*gpu.side, gpu.number);
  FFDL_RETURN_IF_ERROR(use.status());
  return ask(*gpu.side);
}

}  // namespace

Status Gpu::run(const ArrayWork& work) const {
  return with(*this, [&](DeviceSide& its) { return its.run(work, nullptr); });
}

Status Gpu::copy(void* to, const void* from, uint64_t bytes) const {
  return with(*this, [&](DeviceSide& its) { return its.copy(to, from, bytes, nullptr); });
}

Result<SideMemory> Gpu::allocate(uint64_t bytes) const {
  return with(*this, [&](DeviceSide& its) { return its.allocate(bytes); });
}

Result<SideMemory> Gpu::allocate_pinned(uint64_t bytes) const {
  return with(*this, [&](DeviceSide& its) { return its.allocate_pinned(bytes); });
}

Status Gpu::wait() const {
  return with(*this, [](DeviceSide& its) { return its.wait(nullptr); });
}

Result<ChosenGpu> choose_gpu(std::optional<int> number, DeviceSide* other) {
  ChosenGpu chosen;
  if (!number) return chosen;
  if (other == nullptr) chosen.own_side = gpu_side();
  chosen.gpu = {other != nullptr ? other : chosen.own_side.get(), *number};
  if (*number < 0) {
    FFDL_ASSIGN_OR_RETURN(chosen.gpu.number, chosen.gpu.side->in_use());
  }
  return chosen;
}

}  // namespace ffdl::base
