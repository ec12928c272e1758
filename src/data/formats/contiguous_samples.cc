#include "data/formats/contiguous_samples.h"

namespace ffdl::data {

std::span<const std::byte> put_together(SampleSpans& samples, std::span<std::byte> to) {
  const size_t bytes = bytes_together(samples);
  copy_together(samples, to.data(), [&](size_t i, std::span<const std::byte> copy) {
    if (!copy.empty()) samples[i] = copy;
  });
  return to.first(bytes);
}

std::span<const std::byte> put_together(SampleSpans& samples, SampleBatch& memory) {
  const std::byte* begin = nullptr;
  size_t bytes = 0;
  bool together = true;
  for (const auto& sample : samples) {
    if (sample.empty()) continue;
    if (begin == nullptr) begin = sample.data();
    together = together && sample.data() == begin + bytes;
    bytes += sample.size();
  }
  if (together) return {begin, bytes};
  return put_together(samples, memory.allocate(bytes));
}

}  // namespace ffdl::data
