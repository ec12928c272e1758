#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "ffdl/data/sample_batch.h"

// Copies scattered samples into contiguous memory.
namespace ffdl::data {

using SampleSpans = std::vector<std::span<const std::byte>>;

inline size_t bytes_together(std::span<const std::span<const std::byte>> samples) {
  size_t bytes = 0;
  for (const auto& sample : samples) bytes += sample.size();
  return bytes;
}

// Copies the samples to `to`, which has room for all. Calls placed(i, copy) with the new span of
// each.
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

// Copies the samples to `to`, which has room for all, and points `samples` there. Empty samples
// stay unchanged. Returns the bytes.
std::span<const std::byte> put_together(SampleSpans& samples, std::span<std::byte> to);
// Copies the samples into memory of a batch, unless they are already contiguous. Returns the bytes.
std::span<const std::byte> put_together(SampleSpans& samples, SampleBatch& memory);

}  // namespace ffdl::data
