#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_side.h"
#include "ffdl/ps/learner.h"
#include "ps/learner/started_push.h"
#include "ps/segment/layout.h"

namespace ffdl::ps {

// Moves a learner's gradients and weights between a device's memory and the host's. It accepts any
// DeviceSide, so that tests need no GPU. docs/decisions/0027-device-learners.md explains the
// design.
// Threads: follow_... on the learner's thread, land() on its push thread, pull...() on its pull
// thread. Owns: two streams, the pinning, and memory for one gradient and the rows of one pull.
class DeviceTransfer {
 public:
  // `region` is mapped for this learner alone: no other code of this process pins its addresses.
  static Result<std::unique_ptr<DeviceTransfer>> begin(const Region& region, int slot,
                                                       std::unique_ptr<base::DeviceSide> side,
                                                       int device);
  // The transfers must have ended.
  ~DeviceTransfer();

  const std::string& not_pinned() const { return not_pinned_; }

  // Order all earlier work on `stream` before the next push or pull.
  // Errors: kInvalidArgument (memory of the host).
  Status follow_for_push(const Gradient& gradient, base::DeviceStream stream);
  Status follow_for_pull(std::span<const void* const> memory, base::DeviceStream stream);

  // Copies the values of a push to the host's memory, and makes them the values of the push. They
  // are valid until the next call.
  Status land(StartedPush& push);
  Result<uint64_t> pull(std::span<float> weights, PullMode mode);
  Result<uint64_t> pull_rows(std::span<const RowWeights> tables);

 private:
  static constexpr uint64_t kPage = 4096;
  struct FreePages {
    void operator()(std::byte* pages) const { std::free(pages); }
  };

  DeviceTransfer(const Region& region, int slot, std::unique_ptr<base::DeviceSide> side, int device)
      : region_(region), slot_(slot), side_(std::move(side)), device_(device) {}
  Status prepare();
  void pin_memory();
  Status follow(base::DeviceStream stream, base::DeviceStream side_stream,
                std::span<const void* const> memory, std::string_view doing) const;
  Status copy_and_wait(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) const;
  Status copy_values(const Gradient& gradient);
  void make_room_to_gather(uint64_t bytes);

  const Region region_;
  const int slot_;
  const std::unique_ptr<base::DeviceSide> side_;
  const int device_;
  std::unique_ptr<std::byte, FreePages> landing_;   // receives a gradient from the device
  std::unique_ptr<std::byte, FreePages> gathered_;  // holds rows before their copy to the device
  uint64_t gathered_bytes_ = 0;
  base::SidePin gathered_pin_;
  std::string not_pinned_;
  std::vector<base::SidePin> pins_;
  base::SideStream push_stream_;
  base::SideStream pull_stream_;
};

}  // namespace ffdl::ps
