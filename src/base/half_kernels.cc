#include "base/half_kernels.h"

#include <algorithm>
#include <limits>

#include "base/kernel_choice.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/half_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ffdl::base::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using BitsTag = hn::RebindToUnsigned<FloatTag>;
using HalfTag = hn::Rebind<uint16_t, FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Bits = hn::Vec<BitsTag>;

// Uses integer arithmetic on the float's bits. Highway's own conversions round differently if the
// processor has no instruction for them.
struct BFloat16Bits {
  static Floats widened(Bits half) { return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(half)); }
  static Bits narrowed(Floats value) {
    const BitsTag d;
    const Bits bits = hn::BitCast(d, value);
    const Bits odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const Bits rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF))));
    const Bits quiet_nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d, 0x40));
    const auto is_nan = hn::RebindMask(d, hn::IsNaN(value));
    return hn::IfThenElse(is_nan, quiet_nan, rounded);
  }
};

struct Float16Bits {
  static Floats widened(Bits half) {
    const BitsTag d;
    const FloatTag f;
    const Bits sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(d, 0x8000)));
    const Bits magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(d, 0x7FFF)));
    // Multiplying by 2^112 changes the exponent's bias, and makes subnormal numbers normal.
    const Bits finite = hn::BitCast(d, hn::Mul(hn::BitCast(f, magnitude), hn::Set(f, 0x1p112F)));
    const auto special = hn::Gt(hn::BitCast(hn::RebindToSigned<BitsTag>(), magnitude),
                                hn::Set(hn::RebindToSigned<BitsTag>(), 0x0F7FFFFF));
    const Bits infinite = hn::Or(magnitude, hn::Set(d, 0x7F800000));
    return hn::BitCast(f,
                       hn::Or(sign, hn::IfThenElse(hn::RebindMask(d, special), infinite, finite)));
  }
  static Bits narrowed(Floats value) {
    const BitsTag d;
    const hn::RebindToSigned<BitsTag> i;
    const FloatTag f;
    const Floats size = hn::Abs(value);
    const Bits bits = hn::BitCast(d, size);
    const Bits sign = hn::And(hn::ShiftRight<16>(hn::BitCast(d, value)), hn::Set(d, 0x8000));
    // Below 2^-14 the addition of 1/2 itself rounds to the grid of the subnormal numbers.
    const Bits half = hn::BitCast(d, hn::Set(f, 0.5F));
    const Bits subnormal = hn::Sub(hn::BitCast(d, hn::Add(size, hn::Set(f, 0.5F))), half);
    const Bits odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(d, 1));
    const Bits rebiased = hn::Sub(bits, hn::Set(d, (127U - 15U) << 23));
    const Bits normal = hn::ShiftRight<13>(hn::Add(rebiased, hn::Add(odd, hn::Set(d, 0xFFF))));
    const auto is_small = hn::Lt(hn::BitCast(i, bits), hn::Set(i, 0x38800000));  // 2^-14
    const auto is_large = hn::Gt(hn::BitCast(i, bits), hn::Set(i, 0x477FFFFF));  // 2^16
    const auto is_nan = hn::RebindMask(d, hn::IsNaN(value));
    Bits result = hn::IfThenElse(hn::RebindMask(d, is_small), subnormal, normal);
    result = hn::IfThenElse(hn::RebindMask(d, is_large), hn::Set(d, 0x7C00), result);
    result = hn::IfThenElse(is_nan, hn::Set(d, 0x7E00), result);
    return hn::Or(sign, result);
  }
};

template <class Type>
void WidenAs(const uint16_t* HWY_RESTRICT from, float* HWY_RESTRICT to, uint64_t count) {
  const uint64_t lanes = hn::Lanes(FloatTag());
  const auto convert = [](const uint16_t* in, float* out) {
    const Bits half = hn::PromoteTo(BitsTag(), hn::LoadU(HalfTag(), in));
    hn::StoreU(Type::widened(half), FloatTag(), out);
  };
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) convert(from + i, to + i);
  uint16_t in[16] = {};
  float out[16] = {};
  std::copy_n(from + i, count - i, in);
  convert(in, out);
  std::copy_n(out, count - i, to + i);
}

template <class Type>
void NarrowAs(const float* HWY_RESTRICT from, uint16_t* HWY_RESTRICT to, uint64_t count) {
  const uint64_t lanes = hn::Lanes(FloatTag());
  const auto convert = [](const float* in, uint16_t* out) {
    const Bits half = Type::narrowed(hn::LoadU(FloatTag(), in));
    const auto signed_half = hn::BitCast(hn::RebindToSigned<BitsTag>(), half);
    hn::StoreU(hn::DemoteTo(HalfTag(), signed_half), HalfTag(), out);
  };
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) convert(from + i, to + i);
  float in[16] = {};
  uint16_t out[16] = {};
  std::copy_n(from + i, count - i, in);
  convert(in, out);
  std::copy_n(out, count - i, to + i);
}

void Widen(DType type, const uint16_t* from, float* to, uint64_t count) {
  if (type == DType::kBFloat16) {
    WidenAs<BFloat16Bits>(from, to, count);
  } else {
    WidenAs<Float16Bits>(from, to, count);
  }
}

void Narrow(DType type, const float* from, uint16_t* to, uint64_t count) {
  if (type == DType::kBFloat16) {
    NarrowAs<BFloat16Bits>(from, to, count);
  } else {
    NarrowAs<Float16Bits>(from, to, count);
  }
}

}  // namespace ffdl::base::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffdl::base {

FFDL_KERNEL(Widen);
FFDL_KERNEL(Narrow);

void widen(DType type, const uint16_t* from, float* to, uint64_t count) {
  FFDL_BEST_KERNEL(Widen)(type, from, to, count);
}

void narrow(DType type, const float* from, uint16_t* to, uint64_t count) {
  FFDL_BEST_KERNEL(Narrow)(type, from, to, count);
}

float largest_finite(DType type) {
  if (type == DType::kBFloat16) return 0x1.FEp127F;
  if (type == DType::kFloat16) return 0x1.FFCp15F;
  return std::numeric_limits<float>::max();
}

}  // namespace ffdl::base
#endif  // HWY_ONCE
