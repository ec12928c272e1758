#include "ps/server/device_fold.h"

#include <algorithm>

namespace ffdl::ps {

DeviceFold::DeviceFold(const Region& region, int shard, const FoldDevice& device)
    : region_(region),
      device_(device),
      first_(region.shard_begin(shard) * kBlockFloats),
      floats_(region.shard_end(shard) * kBlockFloats - first_),
      planes_(1 + region.config().state_count),
      slice_floats_(std::clamp(device.slice_bytes / sizeof(float) / kBlockFloats * kBlockFloats,
                               kBlockFloats, floats_)) {}

Result<std::unique_ptr<DeviceFold>> DeviceFold::create(const Region& region, int shard,
                                                       const FoldDevice& device) {
  auto fold = std::unique_ptr<DeviceFold>(new DeviceFold(region, shard, device));
  const base::DeviceUse use(*device.gpu.side, device.gpu.number);
  FFDL_RETURN_IF_ERROR(use.status());
  FFDL_RETURN_IF_ERROR(fold->allocate());
  return fold;
}

Status DeviceFold::allocate() {
  base::DeviceSide& side = *device_.gpu.side;
  FFDL_ASSIGN_OR_RETURN(stream_, side.make_stream());
  FFDL_ASSIGN_OR_RETURN(values_, side.allocate(planes_ * floats_ * sizeof(float)));
  FFDL_ASSIGN_OR_RETURN(gradient_,
                        side.allocate(floats_ * element_bytes(region_.config().gradient_type)));
  FFDL_ASSIGN_OR_RETURN(
      landing_, side.allocate_pinned(uint64_t{2} * planes_ * slice_floats_ * sizeof(float)));
  return {};
}

DeviceFold::~DeviceFold() {
  const base::DeviceUse use(*device_.gpu.side, device_.gpu.number);
  if (stream_) static_cast<void>(device_.gpu.side->wait(stream_.get()));  // its errors are known
  landing_.reset();
  gradient_.reset();
  values_.reset();
  stream_.reset();
}

float* DeviceFold::on_host(uint32_t plane) const {
  return (plane == 0 ? region_.weights() : region_.state(plane - 1)) + first_;
}
float* DeviceFold::on_device(uint32_t plane) const {
  return reinterpret_cast<float*>(values_.get()) + plane * floats_;
}
float* DeviceFold::landing(uint64_t slice, uint32_t plane) const {
  return reinterpret_cast<float*>(landing_.get()) + ((slice & 1) * planes_ + plane) * slice_floats_;
}

Status DeviceFold::load() {
  const TouchedRange all{first_, first_ + floats_};
  return load({&all, 1});
}

Status DeviceFold::load(std::span<const TouchedRange> ranges) {
  base::DeviceSide& side = *device_.gpu.side;
  for (const TouchedRange& range : ranges) {
    const uint64_t begin = std::max(range.begin, first_);
    const uint64_t end = std::min(range.end, first_ + floats_);
    for (uint32_t plane = 0; begin < end && plane < planes_; ++plane) {
      const uint64_t at = begin - first_;
      FFDL_RETURN_IF_ERROR(side.copy(on_device(plane) + at, on_host(plane) + at,
                                     (end - begin) * sizeof(float), stream_.get()));
    }
  }
  return side.wait(stream_.get());
}

Status DeviceFold::add(const UpdateStep& step, std::span<const std::byte> gradient) {
  FFDL_RETURN_IF_ERROR(
      device_.gpu.side->copy(gradient_.get(), gradient.data(), gradient.size(), stream_.get()));
  DeviceUpdate update;
  update.count = floats_;
  update.gradient_type = region_.config().gradient_type;
  update.gradient = gradient_.get();
  update.weights = on_device(0);
  for (uint32_t s = 0; s + 1 < planes_; ++s) update.state[s] = on_device(1 + s);
  return device_.update(region_.config().rule, step, update, stream_.get());
}

Status DeviceFold::copy_slice(uint64_t slice) {
  const uint64_t begin = slice * slice_floats_;
  if (begin >= floats_) return {};
  const uint64_t count = std::min(slice_floats_, floats_ - begin);
  for (uint32_t plane = 0; plane < planes_; ++plane) {
    FFDL_RETURN_IF_ERROR(device_.gpu.side->copy(landing(slice, plane), on_device(plane) + begin,
                                                count * sizeof(float), stream_.get()));
  }
  return {};
}

Status DeviceFold::start_fetch() {
  FFDL_RETURN_IF_ERROR(copy_slice(0));
  FFDL_RETURN_IF_ERROR(device_.gpu.side->wait(stream_.get()));
  arrived_ = 1;
  return copy_slice(1);
}

Result<const float*> DeviceFold::fetched(uint64_t block, uint32_t plane) {
  const uint64_t at = block * kBlockFloats;
  const uint64_t slice = at / slice_floats_;
  if (slice == arrived_) {
    FFDL_RETURN_IF_ERROR(device_.gpu.side->wait(stream_.get()));
    ++arrived_;
    FFDL_RETURN_IF_ERROR(copy_slice(slice + 1));
  }
  return landing(slice, plane) + at % slice_floats_;
}

}  // namespace ffdl::ps
