#pragma once

#include <cstdint>
#include <type_traits>

#include "base/half_arithmetic.h"
#include "base/host_device.h"

// Defines what tree_reduce.h does to one element, for host and device. Both produce the same bits,
// except the payload of NaN.
namespace ffdl::comm {

// The type in which a reduction of T is computed.
template <class T>
using Accumulator =
    std::conditional_t<std::is_integral_v<T>, int64_t,
                       std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <class T>
FFDL_HOST_DEVICE Accumulator<T> accumulated(T element) {
  if constexpr (std::is_arithmetic_v<T>) {
    return element;
  } else {
    return base::widened(element);
  }
}

template <class T>
FFDL_HOST_DEVICE T element_of(Accumulator<T> value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else {
    T element;
    base::narrow(value, element);
    return element;
  }
}

// Wraps integers around.
struct Sum {
  template <class T>
  FFDL_HOST_DEVICE static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <class T>
  FFDL_HOST_DEVICE static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};

// Keeps a NaN on the left: nothing compares less than it.
struct Least {
  template <class T>
  FFDL_HOST_DEVICE static T of(T a, T b) {
    return b < a || b != b ? b : a;
  }
};

struct Greatest {
  template <class T>
  FFDL_HOST_DEVICE static T of(T a, T b) {
    return a < b || b != b ? b : a;
  }
};

// Returns the node over leaves [kFirst, kFirst + kWidth) of the fixed tree over `leaves` values. It
// is unrolled at compile time, so that a GPU keeps all values in registers.
template <class Op, uint32_t kFirst, uint32_t kWidth, class T>
FFDL_HOST_DEVICE T node_of(const T* values, uint32_t leaves) {
  if constexpr (kWidth == 1) {
    return values[kFirst];
  } else {
    constexpr uint32_t kHalf = kWidth / 2;
    const T left = node_of<Op, kFirst, kHalf>(values, leaves);
    if (kFirst + kHalf >= leaves) return left;
    return Op::of(left, node_of<Op, kFirst + kHalf, kHalf>(values, leaves));
  }
}

}  // namespace ffdl::comm
