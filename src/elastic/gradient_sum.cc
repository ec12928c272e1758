#include "elastic/gradient_sum.h"

#include <algorithm>
#include <type_traits>

#include "elastic/blocks.h"

namespace ffdl::elastic {
namespace {

// Whether a buffer is added up as T.
template <class T>
bool is_added_as(const Buffer& buffer) {
  return (buffer.dtype == DType::kFloat64) == std::is_same_v<T, double>;
}

template <class T>
uint64_t added_count(std::span<const Buffer> gradients) {
  uint64_t count = 0;
  for (const Buffer& buffer : gradients) count += is_added_as<T>(buffer) ? buffer.count : 0;
  return count;
}

}  // namespace

// Parts that are as large as the first are not multiplied, so that equal parts have the sum that
// plain addition gives.
void GradientSum::add(uint64_t samples) {
  if (samples == 0) return;
  if (samples_ == 0) whole_ = samples;
  const double weight = static_cast<double>(samples) / static_cast<double>(whole_);
  add_to(floats_, weight);
  add_to(doubles_, weight);
  samples_ += samples;
}

void GradientSum::finish() {
  const double parts = static_cast<double>(samples_) / static_cast<double>(whole_);
  divide(floats_, parts);
  divide(doubles_, parts);
  samples_ = 0;
}

template <class T>
void GradientSum::add_to(std::vector<T>& sum, double weight) {
  sum.resize(added_count<T>(gradients_));  // in the first step
  const T by = static_cast<T>(weight);
  Block<T> block;
  uint64_t at = 0;
  for (const Buffer& buffer : gradients_) {
    if (!is_added_as<T>(buffer)) continue;
    for (uint64_t begin = 0; begin < buffer.count; begin += kBlock) {
      const uint64_t count = load(buffer, begin, block);
      if (samples_ == 0) {
        std::copy_n(block.begin(), count, &sum[at]);
      } else {
        for (uint64_t i = 0; i < count; ++i) sum[at + i] += by * block[i];
      }
      at += count;
    }
  }
}

template <class T>
void GradientSum::divide(const std::vector<T>& sum, double by) const {
  Block<T> block;
  uint64_t at = 0;
  for (const Buffer& buffer : gradients_) {
    if (!is_added_as<T>(buffer)) continue;
    for (uint64_t begin = 0; begin < buffer.count; begin += kBlock) {
      const uint64_t count = std::min(kBlock, buffer.count - begin);
      for (uint64_t i = 0; i < count; ++i) block[i] = sum[at + i] / static_cast<T>(by);
      store(block, count, buffer, begin);
      at += count;
    }
  }
}

}  // namespace ffdl::elastic
