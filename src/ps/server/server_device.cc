#include "ps/server/server_device.h"

#include "base/log.h"

namespace ffdl::ps {

Result<ServerDevice> ServerDevice::choose(std::optional<int> number, const OtherDevices& other) {
  ServerDevice device;
  FFDL_ASSIGN_OR_RETURN(base::ChosenGpu chosen, base::choose_gpu(number, other.devices));
  device.own_side_ = std::move(chosen.own_side);
  device.fold_ = {.gpu = chosen.gpu, .update = other.update, .slice_bytes = other.slice_bytes};
  if (!device.fold_) return device;
  const base::DeviceUse use(*chosen.gpu.side, chosen.gpu.number);
  FFDL_RETURN_IF_ERROR(use.status());
  return device;
}

ServerDevice ServerDevice::succeed(const Region& region, const OtherDevices& other) {
  if (!region.folds_batches()) return {};
  const int number = static_cast<int>(region.config().device_plus_one) - 1;
  Result<ServerDevice> device = choose(number, other);
  if (device.ok()) return std::move(device).value();
  base::log_warning(
      "the processor folds in place of GPU {}, which folded for the previous server: {}", number,
      device.status().message());
  return {};
}

Result<std::unique_ptr<DeviceFold>> ServerDevice::make_fold(const Region& region, int shard) const {
  if (!fold_) return std::unique_ptr<DeviceFold>();
  return DeviceFold::create(region, shard, fold_);
}

Status ServerDevice::pin_gradients(const Region& region) {
  if (!fold_ || gradients_) return {};
  const base::DeviceUse use(*fold_.gpu.side, fold_.gpu.number);
  FFDL_RETURN_IF_ERROR(use.status());
  const Offsets& at = region.offsets();
  std::byte* const first = region.gradient(0, 0).bytes(0, 0).data();
  Result<base::SidePin> pinned = fold_.gpu.side->pin(first, at.total - at.gradients);
  if (pinned.ok()) {
    gradients_ = std::move(pinned).value();
  } else {
    base::log_warning("gradients go to GPU {} from memory that is not pinned, which is slower: {}",
                      fold_.gpu.number, pinned.status().message());
  }
  return {};
}

}  // namespace ffdl::ps
