#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "comm/gpu/nccl/interface.h"

// Adds up as the library of fake_nccl.cc does: in the order of ranks, unlike ffdl's tree.
namespace ffdl::testing::fake_nccl {

namespace nccl = comm::nccl;
using Bytes = std::vector<std::byte>;

template <class T>
T combine(nccl::Op op, T a, T b) {
  if (op == nccl::Op::kMin) return b < a ? b : a;
  if (op == nccl::Op::kMax) return a < b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    const auto left = static_cast<uint64_t>(static_cast<Wrapping>(a));
    const auto right = static_cast<uint64_t>(static_cast<Wrapping>(b));
    return static_cast<T>(op == nccl::Op::kProduct ? left * right : left + right);
  } else {
    return op == nccl::Op::kProduct ? a * b : a + b;
  }
}

template <class T>
void reduce_as(nccl::Op op, const std::vector<Bytes>& given, size_t begin, size_t count,
               void* out) {
  for (size_t i = 0; i < count; ++i) {
    T result{};
    for (size_t rank = 0; rank < given.size(); ++rank) {
      T value;
      std::memcpy(&value, given[rank].data() + (begin + i) * sizeof(T), sizeof(T));
      result = rank == 0 ? value : combine(op, result, value);
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (op == nccl::Op::kMean) result /= static_cast<T>(given.size());
    }
    std::memcpy(static_cast<std::byte*>(out) + i * sizeof(T), &result, sizeof(T));
  }
}

// Returns the value of a 16-bit number: bfloat16 if `brain`, else float16. Tests add up numbers
// with few digits only.
inline float widen(uint16_t half, bool brain) {
  const uint32_t sign = (half & 0x8000U) << 16;
  uint32_t bits = 0;
  if (brain) {
    bits = static_cast<uint32_t>(half) << 16;
  } else if ((half & 0x7fffU) != 0) {
    bits = sign | (((half & 0x7fffU) << 13) + ((127U - 15U) << 23));
  }
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint16_t narrow(float value, bool brain) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (brain) return static_cast<uint16_t>(bits >> 16);
  if ((bits & 0x7fffffffU) == 0) return 0;
  const uint32_t rest = (bits & 0x7fffffffU) - ((127U - 15U) << 23);
  return static_cast<uint16_t>((bits >> 16 & 0x8000U) | rest >> 13);
}

inline void reduce_halves(nccl::Op op, bool brain, const std::vector<Bytes>& given, size_t begin,
                          size_t count, void* out) {
  for (size_t i = 0; i < count; ++i) {
    float result = 0;
    for (size_t rank = 0; rank < given.size(); ++rank) {
      uint16_t half;
      std::memcpy(&half, given[rank].data() + (begin + i) * sizeof half, sizeof half);
      const float value = widen(half, brain);
      result = rank == 0 ? value : combine(op, result, value);
    }
    if (op == nccl::Op::kMean) result /= static_cast<float>(given.size());
    const uint16_t half = narrow(result, brain);
    std::memcpy(static_cast<std::byte*>(out) + i * sizeof half, &half, sizeof half);
  }
}

}  // namespace ffdl::testing::fake_nccl
