#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ffdl/parameter_server.h"

namespace ffdl::ps {

constexpr uint64_t bytes_per_element(GradientType type) {
  return type == GradientType::kFloat32 ? sizeof(float) : sizeof(uint16_t);
}

// One gradient as it lies in a slot, in the server's gradient type. Values go in and come out as
// floats. A view: owns nothing.
class GradientBuffer {
 public:
  GradientBuffer(std::byte* data, GradientType type) : data_(data), type_(type) {}

  // The memory of `count` elements from `at` on.
  std::span<std::byte> bytes(uint64_t at, uint64_t count) const {
    return {data_ + at * bytes_per_element(type_), count * bytes_per_element(type_)};
  }
  // The memory itself. Only of kFloat32.
  float* floats() const { return reinterpret_cast<float*>(data_); }

  void write(uint64_t at, std::span<const float> values) const;
  // element = element * scale + value * values_scale
  void add(uint64_t at, float scale, std::span<const float> values, float values_scale) const;
  void scale(uint64_t at, uint64_t count, float factor) const;

  // The elements as floats: in place where that is possible, else in `scratch`.
  const float* read(uint64_t at, uint64_t count, float* scratch) const;

 private:
  uint16_t* halves() const { return reinterpret_cast<uint16_t*>(data_); }
  template <class Change>
  void change_halves(uint64_t at, uint64_t count, Change&& change) const;

  std::byte* data_;
  GradientType type_;
};

}  // namespace ffdl::ps
