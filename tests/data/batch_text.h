#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "ffdl/data/data_pipeline.h"

namespace ffdl::testing {

// Owns a batch of `samples` texts of different lengths, the first of length 0. Another number gives
// other texts.
struct TextBatch {
  explicit TextBatch(uint64_t number, size_t samples = 5) {
    for (size_t i = 0; i < samples; ++i) {
      texts.emplace_back(i * 3, static_cast<char>('a' + (number + i) % 26));
      if (i > 0) texts.back() += std::to_string(number);
    }
    for (size_t i = 0; i < samples; ++i) {
      indices.push_back(number * 1000 + i);
      places.emplace_back(reinterpret_cast<const std::byte*>(texts[i].data()), texts[i].size());
    }
    batch.indices = indices;
    batch.samples = places;
    batch.ranges = {{.partition = 7, .begin = number, .end = number + samples}};
    batch.skipped = number % 3;
  }

  std::vector<std::string> texts{};
  std::vector<uint64_t> indices{};
  std::vector<std::span<const std::byte>> places{};
  DataBatch batch{};
};

// Returns true if the batch equals TextBatch(number) and is contiguous.
inline bool is_text_batch(const DataBatch& batch, uint64_t number, size_t samples = 5) {
  const TextBatch wanted(number, samples);
  if (!std::ranges::equal(batch.indices, wanted.indices) || batch.ranges != wanted.batch.ranges ||
      batch.skipped != wanted.batch.skipped || batch.samples.size() != samples) {
    return false;
  }
  const std::byte* next = batch.bytes.data();
  for (size_t i = 0; i < samples; ++i) {
    const auto& sample = batch.samples[i];
    if (sample.data() != next || sample.size() != wanted.texts[i].size()) return false;
    if (std::memcmp(sample.data(), wanted.texts[i].data(), sample.size()) != 0) return false;
    next += sample.size();
  }
  return next == batch.bytes.data() + batch.bytes.size();
}

}  // namespace ffdl::testing
