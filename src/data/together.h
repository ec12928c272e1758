#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "ffdl/sample_batch.h"

// Samples that lie here and there come to lie one behind the other.
namespace ffdl::data {

using SampleSpans = std::vector<std::span<const std::byte>>;

inline size_t bytes_together(std::span<const std::span<const std::byte>> samples) {
  size_t bytes = 0;
  for (const auto& sample : samples) bytes += sample.size();
  return bytes;
}

// To where there is room for all of them; says of each where it lies then: placed(i, copy).
template <class Placed>
void copy_together(std::span<const std::span<const std::byte>> samples, std::byte* to,
                   Placed&& placed) {
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::span<const std::byte> sample = samples[i];
    if (!sample.empty()) std::memcpy(to, sample.data(), sample.size());
    placed(i, std::span<const std::byte>(to, sample.size()));
    to += sample.size();
  }
}

// Makes `samples` what lies in `to`, which has room for them; gives their bytes. What has none
// stays as it is.
std::span<const std::byte> put_together(SampleSpans& samples, std::span<std::byte> to);
// The same in memory of a batch, but those that lie so already stay where they are.
std::span<const std::byte> put_together(SampleSpans& samples, SampleBatch& memory);

}  // namespace ffdl::data
