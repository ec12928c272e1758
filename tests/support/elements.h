#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/half_kernels.h"
#include "ffdl/types.h"

// Makes numbers of any type at any address.
namespace ffdl::testing {

template <class T>
void put_as(std::byte* to, double value) {
  const auto element = static_cast<T>(value);
  std::memcpy(to, &element, sizeof element);
}

template <class T>
double get_as(const std::byte* from) {
  T element;
  std::memcpy(&element, from, sizeof element);
  return static_cast<double>(element);
}

inline void put_element(DType type, std::byte* to, double value) {
  switch (type) {
    case DType::kInt8:
      return put_as<int8_t>(to, value);
    case DType::kInt16:
      return put_as<int16_t>(to, value);
    case DType::kInt32:
      return put_as<int32_t>(to, value);
    case DType::kInt64:
      return put_as<int64_t>(to, value);
    case DType::kFloat32:
      return put_as<float>(to, value);
    case DType::kFloat64:
      return put_as<double>(to, value);
    case DType::kFloat16:
    case DType::kBFloat16: {
      const auto wide = static_cast<float>(value);
      uint16_t half = 0;
      base::narrow(type, &wide, &half, 1);
      std::memcpy(to, &half, sizeof half);
      return;
    }
  }
}

inline double get_element(DType type, const std::byte* from) {
  switch (type) {
    case DType::kInt8:
      return get_as<int8_t>(from);
    case DType::kInt16:
      return get_as<int16_t>(from);
    case DType::kInt32:
      return get_as<int32_t>(from);
    case DType::kInt64:
      return get_as<int64_t>(from);
    case DType::kFloat32:
      return get_as<float>(from);
    case DType::kFloat64:
      return get_as<double>(from);
    case DType::kFloat16:
    case DType::kBFloat16: {
      uint16_t half = 0;
      std::memcpy(&half, from, sizeof half);
      float wide = 0;
      base::widen(type, &half, &wide, 1);
      return double{wide};
    }
  }
  return 0;
}

// Elements of one type, with some bytes before them so that they can be unaligned.
class Elements {
 public:
  Elements(DType type, uint64_t count, uint64_t offset = 0)
      : type_(type), count_(count), offset_(offset), bytes_(offset + count * element_bytes(type)) {}

  Buffer buffer() { return {bytes_.data() + offset_, count_, type_}; }
  // Returns a part of them as a buffer of its own.
  Buffer part(uint64_t begin, uint64_t count) {
    return {bytes_.data() + offset_ + begin * element_bytes(type_), count, type_};
  }
  void set(uint64_t i, double value) { put_element(type_, place(i), value); }
  double get(uint64_t i) { return get_element(type_, place(i)); }
  uint64_t size() const { return count_; }

 private:
  std::byte* place(uint64_t i) { return bytes_.data() + offset_ + i * element_bytes(type_); }

  DType type_;
  uint64_t count_;
  uint64_t offset_;
  std::vector<std::byte> bytes_;
};

}  // namespace ffdl::testing
