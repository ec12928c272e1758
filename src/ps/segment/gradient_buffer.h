#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ffdl/types.h"

namespace ffdl::ps {

// Returns true for the types that gradients in a slot may have.
constexpr bool is_gradient_type(DType type) {
  return type == DType::kFloat32 || type == DType::kBFloat16 || type == DType::kFloat16;
}

// A view of one gradient in a slot, in the server's gradient type. Values are written and read as
// floats. Owns nothing.
class GradientBuffer {
 public:
  GradientBuffer(std::byte* data, DType type) : data_(data), type_(type) {}

  // Returns the memory of `count` elements from `at` on.
  std::span<std::byte> bytes(uint64_t at, uint64_t count) const {
    return {data_ + at * element_bytes(type_), count * element_bytes(type_)};
  }
  // Returns the memory itself. Only for kFloat32.
  float* floats() const { return reinterpret_cast<float*>(data_); }

  void write(uint64_t at, std::span<const float> values) const;
  // element = element * scale + value * values_scale
  void add(uint64_t at, float scale, std::span<const float> values, float values_scale) const;
  void scale(uint64_t at, uint64_t count, float factor) const;

  // Returns the elements as floats: in place if possible, else in `scratch`.
  const float* read(uint64_t at, uint64_t count, float* scratch) const;

 private:
  uint16_t* halves() const { return reinterpret_cast<uint16_t*>(data_); }
  template <class Change>
  void change_halves(uint64_t at, uint64_t count, Change&& change) const;

  std::byte* data_;
  DType type_;
};

}  // namespace ffdl::ps
