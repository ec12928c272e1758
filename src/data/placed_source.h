#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ffdl/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// Samples of one size that stay where they are, one every `stride` bytes.
struct PlacedSamples {
  const std::byte* first = nullptr;
  uint64_t stride = 0;
  uint64_t bytes = 0;

  std::span<const std::byte> operator[](uint64_t sample) const {
    return {first + sample * stride, static_cast<size_t>(bytes)};
  }
};

// What a source may be besides. Who knows where its samples lie needs no list of them: of small
// samples one is a tenth of what they have, and one that goes from a thread to another costs the
// memory that much twice.
class PlacedSource {
 public:
  virtual ~PlacedSource() = default;

  // Nothing: its samples lie otherwise.
  virtual std::optional<PlacedSamples> placed() const = 0;
  // Does what DataSource::read() does of the same indices, but that the batch gets no samples.
  virtual Status bring(std::span<const uint64_t> indices, SampleBatch& batch) const = 0;
};

}  // namespace ffdl::data
