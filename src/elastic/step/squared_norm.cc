#include "elastic/step/squared_norm.h"

#include <array>

#include "base/array_work.h"
#include "elastic/step/element_blocks.h"

namespace ffdl::elastic {
namespace {

constexpr size_t kLanes = base::kNormLanes;
static_assert(kBlock == base::kNormBlock);
constexpr uint64_t kWholeBlocks = 64;  // so few are cheap, and a sample of them would be inaccurate

// Adds up squares in double, where the square of a float is exact. Uses lanes, so that a compiler
// may use wide registers without changing the order.
template <class T>
double sum_of_squares(const Block<T>& block, uint64_t count) {
  std::array<double, kLanes> lanes{};
  uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(block[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (; i < count; ++i) lanes[i % kLanes] += static_cast<double>(block[i]) * block[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <class T>
double norm_of_block(const Buffer& buffer, const Buffer* other, uint64_t begin) {
  Block<T> block;
  const uint64_t count = load(buffer, begin, block);
  if (other != nullptr) {
    Block<T> subtracted;
    load(*other, begin, subtracted);
    for (uint64_t i = 0; i < count; ++i) block[i] -= subtracted[i];
  }
  return sum_of_squares(block, count);
}

template <class T>
double norm_of(const Buffer& buffer, const Buffer* other, BlockSample sample) {
  const BlockPicks picks = picks_of(buffer, sample);
  double sum = 0;
  for (uint64_t i = 0; i < picks.count; ++i) {
    const auto [block, many] = base::pick_block(picks.blocks, picks.stride, sample.round, i);
    sum += static_cast<double>(many) * norm_of_block<T>(buffer, other, block * kBlock);
  }
  return sum;
}

double norm_of_any(const Buffer& buffer, const Buffer* other, BlockSample sample) {
  return buffer.dtype == DType::kFloat64 ? norm_of<double>(buffer, other, sample)
                                         : norm_of<float>(buffer, other, sample);
}

}  // namespace

BlockPicks picks_of(const Buffer& buffer, BlockSample sample) {
  BlockPicks picks = {.blocks = base::norm_blocks(buffer.count)};
  if (picks.blocks > kWholeBlocks) picks.stride = sample.stride;
  picks.count = base::norm_picks(picks.blocks, picks.stride);
  return picks;
}

double squared_norm(std::span<const Buffer> buffers, BlockSample sample) {
  double sum = 0;
  for (const Buffer& buffer : buffers) sum += norm_of_any(buffer, nullptr, sample);
  return sum;
}

double squared_distance(std::span<const Buffer> buffers, std::span<const Buffer> other,
                        BlockSample sample) {
  double sum = 0;
  for (size_t i = 0; i < buffers.size(); ++i) sum += norm_of_any(buffers[i], &other[i], sample);
  return sum;
}

}  // namespace ffdl::elastic
