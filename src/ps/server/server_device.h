#pragma once

#include <memory>
#include <optional>

#include "ps/server/device_fold.h"

namespace ffdl::ps {

// A replacement for the machine's GPUs and kernels in tests. It must outlive the server.
struct OtherDevices {
  base::DeviceSide* devices = nullptr;
  FoldDevice::Update update = &update_on_device;
  uint64_t slice_bytes = base::kDeviceSliceBytes;
};

// The GPU of a server, or none.
// Owns: the pins of the segment's memory, which are removed before the segment is unmapped.
class ServerDevice {
 public:
  // Errors: those of base/device.h. Without a number no GPU is searched for.
  static Result<ServerDevice> choose(std::optional<int> number, const OtherDevices& other);
  // Chooses the GPU that the segment records. If it cannot be used here, chooses none and logs
  // that.
  static ServerDevice succeed(const Region& region, const OtherDevices& other);

  const FoldDevice& fold() const { return fold_; }
  // Makes the device part of a shard's fold; null: the processor folds.
  Result<std::unique_ptr<DeviceFold>> make_fold(const Region& region, int shard) const;
  // Pins the gradients, so that copy engines alone move them to the GPU. Memory that the system
  // refuses to pin is used unpinned, and that is logged.
  Status pin_gradients(const Region& region);

 private:
  std::unique_ptr<base::DeviceSide> own_side_;
  FoldDevice fold_;
  base::SidePin gradients_;
};

}  // namespace ffdl::ps
