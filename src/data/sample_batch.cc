#include <algorithm>

#include "ffdl/data_source.h"

namespace ffdl {

void SampleBatch::clear() {
  samples_.clear();
  stretches_.clear();
  skipped_ = 0;
  // What took several pieces of memory will be given one that is large enough.
  size_t size = 0;
  for (const Chunk& chunk : chunks_) size += chunk.used;
  if (chunks_.size() > 1) {
    chunks_.clear();
    allocate(size);
  }
  for (Chunk& chunk : chunks_) chunk.used = 0;
}

void SampleBatch::arrange(size_t first, std::span<const size_t> places) {
  const std::vector<std::span<const std::byte>> before(
      samples_.begin() + static_cast<std::ptrdiff_t>(first), samples_.end());
  for (size_t i = 0; i < places.size(); ++i) samples_[first + i] = before[places[i]];
}

std::span<std::byte> SampleBatch::allocate(size_t bytes) {
  constexpr size_t kAlignment = 16;
  const size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (chunks_.empty() || chunks_.back().size - chunks_.back().used < room) {
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(room), room, 0});
  }
  Chunk& chunk = chunks_.back();
  const std::span<std::byte> given(chunk.bytes.get() + chunk.used, bytes);
  chunk.used += room;
  return given;
}

}  // namespace ffdl
