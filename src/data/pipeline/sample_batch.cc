#include "ffdl/data/sample_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ffdl {

void SampleBatch::clear() {
  samples_.clear();
  stretches_.clear();
  skipped_ = 0;
  arranging_ = 0;
  // Replaces several chunks by one that is large enough.
  size_t size = 0;
  for (const Chunk& chunk : chunks_) size += chunk.used;
  if (chunks_.size() > 1) {
    chunks_.clear();
    allocate(size);
  }
  for (Chunk& chunk : chunks_) chunk.used = 0;
}

size_t SampleBatch::begin_arranging() {
  ++arranging_;
  puts_ = false;
  return samples_.size();
}

void SampleBatch::arrange(size_t first, std::span<const size_t> places) {
  const std::vector<std::span<const std::byte>> before(
      samples_.begin() + static_cast<std::ptrdiff_t>(first), samples_.end());
  for (size_t i = 0; i < places.size(); ++i) samples_[first + i] = before[places[i]];
  --arranging_;
  puts_ = is_in_ && arranging_ == 0;
  if (puts_) put_from(first);
}

std::span<std::byte> SampleBatch::allocate(size_t bytes) {
  constexpr size_t kAlignment = 16;
  const size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (chunks_.empty() || chunks_.back().size() - chunks_.back().used < room) {
    chunks_.push_back(new_chunk(room));
  }
  Chunk& chunk = chunks_.back();
  const std::span<std::byte> given(chunk.bytes.get() + chunk.used, bytes);
  chunk.used += room;
  return given;
}

SampleBatch::Chunk SampleBatch::new_chunk(size_t bytes) const {
  if (memory_ != nullptr && bytes > 0) {
    const std::span<std::byte> given = memory_->allocate(bytes);
    if (given.size() >= bytes) return {{given.data(), GiveBack{memory_, given.size()}}};
  }
  return {{std::make_unique_for_overwrite<std::byte[]>(bytes).release(), GiveBack{nullptr, bytes}}};
}

void SampleBatch::GiveBack::operator()(std::byte* bytes) const {
  if (memory != nullptr) return memory->give_back({bytes, size});
  std::default_delete<std::byte[]>()(bytes);
}

void SampleBatch::begin_in(std::span<std::byte> to) {
  clear();
  is_in_ = true;
  puts_ = true;
  to_ = to;
  put_ = 0;
  placed_ = 0;
}

size_t SampleBatch::end_in() {
  is_in_ = false;
  puts_ = false;
  return put_;
}

std::span<std::byte> SampleBatch::place(size_t bytes) {
  const size_t begin = std::max(put_, placed_);
  if (!puts_ || begin > to_.size() || to_.size() - begin < bytes) return allocate(bytes);
  placed_ = begin + bytes;
  return to_.subspan(begin, bytes);
}

// Moves samples that are further back in `to_` to the front, so that they cover nothing that is
// added later.
void SampleBatch::put_from(size_t first) {
  for (size_t i = first; i < samples_.size(); ++i) {
    std::span<const std::byte>& sample = samples_[i];
    if (sample.empty()) continue;
    put_ += sample.size();
    if (put_ > to_.size()) continue;
    std::byte* const at = to_.data() + put_ - sample.size();
    if (sample.data() != at) std::memmove(at, sample.data(), sample.size());
    sample = {at, sample.size()};
  }
}

}  // namespace ffdl
