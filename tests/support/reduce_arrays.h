#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "comm/reduce/device_reduce.h"
#include "comm/reduce/tree_reduce.h"
#include "support/elements.h"

// Holds the arrays of one reduction, and computes the processor's result.
namespace ffdl::testing {

inline constexpr DType kAllTypes[] = {DType::kInt8,    DType::kInt16,   DType::kInt32,
                                      DType::kInt64,   DType::kFloat16, DType::kBFloat16,
                                      DType::kFloat32, DType::kFloat64};

inline constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                                       ReduceOp::kMax, ReduceOp::kProduct};

inline bool is_integer(DType type) { return type <= DType::kInt64; }

// Each array has one more element than requested.
class ReduceArrays {
 public:
  ReduceArrays(DType type, uint32_t inputs, uint64_t count)
      : type_(type), count_(count), values_(inputs + 1) {
    for (uint32_t n = 0; n <= inputs; ++n) {
      values_[n].resize((count + 1) * element_bytes(type) / sizeof(Line) + 1);
      for (uint64_t i = 0; i <= count; ++i) put_element(type, place(n, i), number(n, i));
    }
  }

  std::vector<const void*> inputs() const {
    std::vector<const void*> places;
    for (size_t n = 0; n + 1 < values_.size(); ++n) places.push_back(values_[n].data());
    return places;
  }
  void* out() { return values_.back().data(); }
  uint64_t bytes() const { return count_ * element_bytes(type_); }
  double at(uint64_t i) { return get_element(type_, place(values_.size() - 1, i)); }
  double behind() const { return number(values_.size() - 1, count_); }

  // Returns true if the output equals tree_reduce() of the inputs: the same bits, or both NaN.
  bool is_reduced(ReduceOp op) {
    std::vector<const std::byte*> places;
    for (const void* const input : inputs()) places.push_back(static_cast<const std::byte*>(input));
    std::vector<Line> expected(values_.back().size());
    auto* const to = reinterpret_cast<std::byte*>(expected.data());
    comm::tree_reduce(op, type_, places, to, count_);
    const uint64_t element = element_bytes(type_);
    for (uint64_t i = 0; i < count_; ++i) {
      if (std::memcmp(to + i * element, place(values_.size() - 1, i), element) == 0) continue;
      if (!(std::isnan(get_element(type_, to + i * element)) && std::isnan(at(i)))) return false;
    }
    return true;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  std::byte* place(size_t n, uint64_t i) {
    return reinterpret_cast<std::byte*>(values_[n].data()) + i * element_bytes(type_);
  }
  double number(size_t n, uint64_t i) const {
    if (is_integer(type_)) return static_cast<double>((i * 37 + n * 91) % 251) - 125;
    if (i % 13 == 5 && n == i / 13 % 8) return std::numeric_limits<double>::quiet_NaN();
    if (i % 17 == 3) return n % 2 == 0 ? 0.0 : -0.0;
    return std::sin(static_cast<double>(i + 1) * static_cast<double>(n + 1)) * 3;
  }

  DType type_;
  uint64_t count_;
  std::vector<std::vector<Line>> values_;  // arrays of the inputs, then of the output
};

}  // namespace ffdl::testing
