#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_side.h"
#include "ffdl/device_learner.h"
#include "shm/segment.h"

namespace ffdl {

// A Learner whose transfer threads move bytes from and to a device's memory. Any DeviceSide, so
// that tests need no GPU. docs/decisions/0027-device-learners.md says why it is so.
class DeviceLearner::Impl {
 public:
  // `segment` is mapped for this learner alone: nobody else of this process pins its addresses.
  static Result<std::unique_ptr<DeviceLearner>> attach(std::shared_ptr<const shm::Segment> segment,
                                                       Time deadline,
                                                       const DeviceLearnerOptions& options,
                                                       std::unique_ptr<base::DeviceSide> side);
  ~Impl();

  Learner& learner() { return *learner_; }
  const std::string& not_pinned() const { return not_pinned_; }

  Status start_push(std::span<const float> gradient, base::DeviceStream stream,
                    std::span<const SampleRange> samples);
  Status start_push_halves(GradientType type, std::span<const uint16_t> gradient,
                           base::DeviceStream stream, std::span<const SampleRange> samples);
  Status start_push_sparse(const SparseGradient& gradient, base::DeviceStream stream,
                           std::span<const SampleRange> samples);
  Status start_pull(std::span<float> weights, base::DeviceStream stream, PullMode mode);
  Status start_pull_rows(std::span<const DeviceRows> tables, base::DeviceStream stream);
  Result<uint64_t> finish_pull(Time deadline);

 private:
  static constexpr uint64_t kPage = 4096;
  struct FreePages {
    void operator()(std::byte* pages) const { std::free(pages); }
  };

  Impl(std::unique_ptr<Learner> learner, std::unique_ptr<base::DeviceSide> side, int device);
  Status prepare();
  void pin_memory();
  Status begin_after(base::DeviceStream stream, base::DeviceStream side_stream,
                     const std::vector<const void*>& memory, std::string_view doing) const;
  Status copy_and_wait(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) const;
  // Brings the gradient into landing_, and calls `push_landed` when it is there.
  Status start_landing(std::span<const std::byte> gradient, uint64_t elements,
                       base::DeviceStream stream, std::function<Result<PushResult>()> push_landed);
  struct LandingParts;
  Result<PushResult> push_parts(const LandingParts& parts);
  Result<uint64_t> pull(std::span<float> weights, PullMode mode) const;
  struct WantedRows;
  Result<uint64_t> pull_rows(const std::vector<WantedRows>& tables);
  void make_room_to_gather(uint64_t bytes);

  const std::unique_ptr<Learner> learner_;  // with the mapping, which goes last
  const std::unique_ptr<base::DeviceSide> side_;
  const int device_;
  std::unique_ptr<std::byte, FreePages> landing_;   // where a gradient comes from the device
  std::unique_ptr<std::byte, FreePages> gathered_;  // where rows wait for their way to the device
  uint64_t gathered_bytes_ = 0;
  base::SidePin gathered_pin_;
  std::string not_pinned_;
  std::vector<base::SidePin> pins_;
  base::SideStream push_stream_;
  base::SideStream pull_stream_;
};

}  // namespace ffdl
