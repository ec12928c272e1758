#include "elastic/step/device_norm.h"

#include <algorithm>

namespace ffdl::elastic {
namespace {

constexpr uint64_t kBytesOfBlock = base::kNormLanes * sizeof(double);

}  // namespace

Result<DeviceNorm> DeviceNorm::create(const base::Gpu& gpu, uint64_t blocks_at_once) {
  DeviceNorm norm(gpu, blocks_at_once);
  FFDL_ASSIGN_OR_RETURN(norm.lanes_, gpu.allocate(blocks_at_once * kBytesOfBlock));
  FFDL_ASSIGN_OR_RETURN(norm.copy_, gpu.allocate_pinned(blocks_at_once * kBytesOfBlock));
  FFDL_ASSIGN_OR_RETURN(base::SideMemory zeros, gpu.allocate(sizeof(float)));
  const Buffer first = {zeros.get(), 1};
  FFDL_RETURN_IF_ERROR(gpu.run(base::ScaleArray{first, 0}));
  FFDL_RETURN_IF_ERROR(norm.squared_norm({&first, 1}).status());
  return norm;
}

Result<double> DeviceNorm::squared_norm(std::span<const Buffer> buffers, BlockSample sample) {
  return norm_of(buffers, {}, sample);
}

Result<double> DeviceNorm::squared_distance(std::span<const Buffer> buffers,
                                            std::span<const Buffer> other, BlockSample sample) {
  return norm_of(buffers, other, sample);
}

Result<double> DeviceNorm::norm_of(std::span<const Buffer> buffers, std::span<const Buffer> other,
                                   BlockSample sample) {
  parts_.clear();
  used_ = 0;
  sum_ = 0;
  of_buffer_ = 0;
  auto* const lanes = reinterpret_cast<double*>(lanes_.get());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BlockPicks picks = picks_of(buffers[i], sample);
    for (uint64_t begin = 0; begin < picks.count;) {
      const uint64_t count = std::min(picks.count - begin, blocks_at_once_ - used_);
      FFDL_RETURN_IF_ERROR(gpu_.run(
          base::SquareArray{buffers[i], other.empty() ? nullptr : other[i].data, picks.stride,
                            sample.round, begin, count, lanes + used_ * base::kNormLanes}));
      parts_.push_back({picks, begin, count});
      begin += count;
      used_ += count;
      if (used_ == blocks_at_once_) FFDL_RETURN_IF_ERROR(settle(sample.round));
    }
  }
  FFDL_RETURN_IF_ERROR(settle(sample.round));
  return sum_;
}

// Adds up the block sums in the order of squared_norm().
Status DeviceNorm::settle(uint64_t round) {
  FFDL_RETURN_IF_ERROR(gpu_.copy(copy_.get(), lanes_.get(), used_ * kBytesOfBlock));
  FFDL_RETURN_IF_ERROR(gpu_.wait());
  const auto* lanes = reinterpret_cast<const double*>(copy_.get());
  for (const Part& part : parts_) {
    const BlockPicks& picks = part.picks;
    for (uint64_t pick = part.begin; pick < part.begin + part.count; ++pick) {
      double of_block = 0;
      for (uint64_t lane = 0; lane < base::kNormLanes; ++lane) of_block += lanes[lane];
      lanes += base::kNormLanes;
      const uint64_t many = base::pick_block(picks.blocks, picks.stride, round, pick).many;
      of_buffer_ += static_cast<double>(many) * of_block;
    }
    if (part.begin + part.count < picks.count) continue;
    sum_ += of_buffer_;
    of_buffer_ = 0;
  }
  parts_.clear();
  used_ = 0;
  return {};
}

}  // namespace ffdl::elastic
