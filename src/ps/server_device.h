#pragma once

#include <memory>
#include <optional>

#include "ps/device_fold.h"

namespace ffdl::ps {

// Another machine's GPUs, and its kernels: for tests. Outlives the server.
struct OtherDevices {
  base::DeviceSide* devices = nullptr;
  FoldDevice::Update update = &update_on_device;
  uint64_t slice_bytes = base::kDeviceSliceBytes;
};

// The GPU of a server, or none.
// Owns: what it pins of the segment, which is unpinned before the segment goes.
class ServerDevice {
 public:
  // Errors: those of base/device.h; nothing is looked for where no number is given.
  static Result<ServerDevice> choose(std::optional<int> number, const OtherDevices& other);
  // The one that the segment's servers have. Where that cannot be used here there is none, which
  // the log says.
  static ServerDevice succeed(const Region& region, const OtherDevices& other);

  const FoldDevice& fold() const { return fold_; }
  // What a shard folds with; null: the processor.
  Result<std::unique_ptr<DeviceFold>> make_fold(const Region& region, int shard) const;
  // So that gradients go to the GPU by its copy engines alone. What the system does not let pin is
  // used unpinned, which the log says.
  Status pin_gradients(const Region& region);

 private:
  std::unique_ptr<base::DeviceSide> own_side_;
  FoldDevice fold_;
  base::SidePin gradients_;
};

}  // namespace ffdl::ps
