#include "ps/segment/gradient_buffer.h"

#include <algorithm>
#include <cstring>

#include "base/half_kernels.h"
#include "ps/rules/gradient_kernels.h"

namespace ffdl::ps {

// Converts through a piece of floats that stays in the first-level cache.
template <class Change>
void GradientBuffer::change_halves(uint64_t at, uint64_t count, Change&& change) const {
  float piece[512];
  for (uint64_t done = 0; done < count;) {
    const uint64_t now = std::min<uint64_t>(std::size(piece), count - done);
    base::widen(type_, halves() + at + done, piece, now);
    change(done, std::span(piece, now));
    base::narrow(type_, piece, halves() + at + done, now);
    done += now;
  }
}

void GradientBuffer::write(uint64_t at, std::span<const float> values) const {
  if (type_ == DType::kFloat32) {
    std::memcpy(floats() + at, values.data(), values.size_bytes());
  } else {
    base::narrow(type_, values.data(), halves() + at, values.size());
  }
}

void GradientBuffer::add(uint64_t at, float scale, std::span<const float> values,
                         float values_scale) const {
  if (type_ == DType::kFloat32) {
    scale_and_add(floats() + at, scale, values.data(), values_scale, values.size());
    return;
  }
  change_halves(at, values.size(), [&](uint64_t done, std::span<float> piece) {
    scale_and_add(piece.data(), scale, values.data() + done, values_scale, piece.size());
  });
}

void GradientBuffer::scale(uint64_t at, uint64_t count, float factor) const {
  const auto multiply = [&](uint64_t, std::span<float> piece) {
    for (float& value : piece) value *= factor;
  };
  if (type_ == DType::kFloat32) {
    multiply(0, std::span(floats() + at, count));
  } else {
    change_halves(at, count, multiply);
  }
}

const float* GradientBuffer::read(uint64_t at, uint64_t count, float* scratch) const {
  if (type_ == DType::kFloat32) return floats() + at;
  base::widen(type_, halves() + at, scratch, count);
  return scratch;
}

}  // namespace ffdl::ps
