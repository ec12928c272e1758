#include "elastic/step/gradient_sum.h"

#include <algorithm>
#include <type_traits>

#include "base/element_pack.h"
#include "elastic/step/element_blocks.h"

namespace ffdl::elastic {
namespace {

// Reports whether a buffer is added up as T.
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

// Returns the bytes of a buffer's sum, rounded up so that each sum is aligned for the GPU.
uint64_t room_on_gpu(const Buffer& buffer) {
  const uint64_t bytes = buffer.count * (is_added_as<double>(buffer) ? 8 : 4);
  return (bytes + base::kDeviceAlignment - 1) / base::kDeviceAlignment * base::kDeviceAlignment;
}

}  // namespace

// Adds a part. Parts as large as the first are not multiplied, so that equal parts have the sum of
// plain addition.
Status GradientSum::add(uint64_t samples) {
  if (samples == 0) return {};
  if (samples_ == 0) whole_ = samples;
  const double weight = static_cast<double>(samples) / static_cast<double>(whole_);
  if (gpu_) {
    FFDL_RETURN_IF_ERROR(add_on_gpu(weight));
  } else {
    add_to(floats_, weight);
    add_to(doubles_, weight);
  }
  samples_ += samples;
  return {};
}

Status GradientSum::finish() {
  const double parts = static_cast<double>(samples_) / static_cast<double>(whole_);
  samples_ = 0;
  if (gpu_) return divide_on_gpu(parts);
  divide(floats_, parts);
  divide(doubles_, parts);
  return {};
}

Status GradientSum::add_on_gpu(double weight) {
  if (on_gpu_ == nullptr) {
    uint64_t bytes = 0;
    for (const Buffer& buffer : gradients_) bytes += room_on_gpu(buffer);
    FFDL_ASSIGN_OR_RETURN(on_gpu_, gpu_.allocate(std::max<uint64_t>(bytes, 1)));
  }
  std::byte* sum = on_gpu_.get();
  for (const Buffer& buffer : gradients_) {
    FFDL_RETURN_IF_ERROR(gpu_.run(base::AddArray{sum, buffer, weight, samples_ == 0}));
    sum += room_on_gpu(buffer);
  }
  return {};
}

Status GradientSum::divide_on_gpu(double by) const {
  const std::byte* sum = on_gpu_.get();
  for (const Buffer& buffer : gradients_) {
    FFDL_RETURN_IF_ERROR(gpu_.run(base::DivideArray{buffer, sum, by}));
    sum += room_on_gpu(buffer);
  }
  return {};
}

template <class T>
void GradientSum::add_to(std::vector<T>& sum, double weight) {
  sum.resize(added_count<T>(gradients_));  // allocates in the first step
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
