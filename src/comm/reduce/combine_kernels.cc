#include "comm/reduce/combine_kernels.h"

#include <algorithm>

#include "base/kernel_choice.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/reduce/combine_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ffdl::comm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Bytes. One of the inputs usually comes from another processor.
constexpr uint64_t kAhead = 512;

struct Add {
  template <class V>
  static V of(V a, V b) {
    return hn::Add(a, b);
  }
};

struct Multiply {
  template <class V>
  static V of(V a, V b) {
    return hn::Mul(a, b);
  }
};

// Writes the comparisons out, as processors differ in their minimum of NaN. A NaN on the left
// stays: nothing compares less than it.
struct Minimum {
  template <class V>
  static V of(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
};

struct Maximum {
  template <class V>
  static V of(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(b)), b, a);
  }
};

template <class Op, class T>
void CombineAs(const T* left, const T* right, T* into, uint64_t count) {
  const hn::ScalableTag<T> d;
  const uint64_t lanes = hn::Lanes(d);
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    __builtin_prefetch(left + i + kAhead / sizeof(T));
    __builtin_prefetch(right + i + kAhead / sizeof(T));
    hn::StoreU(Op::of(hn::LoadU(d, left + i), hn::LoadU(d, right + i)), d, into + i);
  }
  const hn::CappedTag<T, 1> one;
  for (; i < count; ++i) {
    hn::StoreU(Op::of(hn::LoadU(one, left + i), hn::LoadU(one, right + i)), one, into + i);
  }
}

template <class T>
void CombineFloats(ReduceOp op, const T* left, const T* right, T* into, uint64_t count) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return CombineAs<Add>(left, right, into, count);
    case ReduceOp::kMin:
      return CombineAs<Minimum>(left, right, into, count);
    case ReduceOp::kMax:
      return CombineAs<Maximum>(left, right, into, count);
    case ReduceOp::kProduct:
      return CombineAs<Multiply>(left, right, into, count);
  }
}

void CombineFloat32(ReduceOp op, const float* left, const float* right, float* into,
                    uint64_t count) {
  CombineFloats(op, left, right, into, count);
}

void CombineFloat64(ReduceOp op, const double* left, const double* right, double* into,
                    uint64_t count) {
  CombineFloats(op, left, right, into, count);
}

}  // namespace ffdl::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffdl::comm {

FFDL_KERNEL(CombineFloat32);
FFDL_KERNEL(CombineFloat64);

void combine(ReduceOp op, const float* left, const float* right, float* into, uint64_t count) {
  FFDL_BEST_KERNEL(CombineFloat32)(op, left, right, into, count);
}

void combine(ReduceOp op, const double* left, const double* right, double* into, uint64_t count) {
  FFDL_BEST_KERNEL(CombineFloat64)(op, left, right, into, count);
}

// Computes in unsigned integers, where overflow is defined.
void combine(ReduceOp op, const int64_t* left, const int64_t* right, int64_t* into,
             uint64_t count) {
  const auto each = [&](auto&& of) {
    for (uint64_t i = 0; i < count; ++i) into[i] = of(left[i], right[i]);
  };
  const auto bits = [](int64_t value) { return static_cast<uint64_t>(value); };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return each([&](int64_t a, int64_t b) { return static_cast<int64_t>(bits(a) + bits(b)); });
    case ReduceOp::kMin:
      return each([](int64_t a, int64_t b) { return std::min(a, b); });
    case ReduceOp::kMax:
      return each([](int64_t a, int64_t b) { return std::max(a, b); });
    case ReduceOp::kProduct:
      return each([&](int64_t a, int64_t b) { return static_cast<int64_t>(bits(a) * bits(b)); });
  }
}

}  // namespace ffdl::comm
#endif  // HWY_ONCE
