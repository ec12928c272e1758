#include "ps/rules/gradient_kernels.h"

#include <algorithm>
#include <cmath>

#include "base/kernel_choice.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ps/rules/gradient_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ffdl::ps::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using DoubleTag = hn::CappedTag<double, 8>;

GradientFacts InspectGradient(const float* HWY_RESTRICT gradient, uint64_t count) {
  const DoubleTag doubles;
  const hn::Rebind<float, DoubleTag> floats;
  const hn::RebindToUnsigned<decltype(floats)> bits;
  const auto exponent = hn::Set(bits, 0x7f800000U);
  const size_t lanes = hn::Lanes(doubles);
  auto even = hn::Zero(doubles);  // two sums, so that an addition need not wait for the last one
  auto odd = hn::Zero(doubles);
  auto bad = hn::Eq(hn::Zero(bits), exponent);  // none
  uint64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto first = hn::LoadU(floats, gradient + i);
    const auto second = hn::LoadU(floats, gradient + i + lanes);
    bad = hn::Or(bad, hn::Eq(hn::And(hn::BitCast(bits, first), exponent), exponent));
    bad = hn::Or(bad, hn::Eq(hn::And(hn::BitCast(bits, second), exponent), exponent));
    const auto first_double = hn::PromoteTo(doubles, first);
    const auto second_double = hn::PromoteTo(doubles, second);
    even = hn::MulAdd(first_double, first_double, even);
    odd = hn::MulAdd(second_double, second_double, odd);
  }
  GradientFacts facts;
  facts.finite = hn::AllFalse(bits, bad);
  facts.square_sum = hn::GetLane(hn::SumOfLanes(doubles, hn::Add(even, odd)));
  for (; i < count; ++i) {
    facts.finite = facts.finite && std::isfinite(gradient[i]);
    facts.square_sum += double{gradient[i]} * double{gradient[i]};
  }
  return facts;
}

float LargestMagnitude(const float* HWY_RESTRICT gradient, uint64_t count) {
  const FloatTag floats;
  const size_t lanes = hn::Lanes(floats);
  auto largest = hn::Zero(floats);
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    largest = hn::Max(largest, hn::Abs(hn::LoadU(floats, gradient + i)));
  }
  float result = hn::GetLane(hn::MaxOfLanes(floats, largest));
  for (; i < count; ++i) result = std::max(result, std::abs(gradient[i]));
  return result;
}

void CopyFloats(float* HWY_RESTRICT to, const float* HWY_RESTRICT from, uint64_t count) {
  const FloatTag floats;
  const size_t lanes = hn::Lanes(floats);
  uint64_t i = 0;
  // Fewer instructions per line let the processor begin the next block earlier.
  HWY_UNROLL(8)
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(floats, from + i), floats, to + i);
  for (; i < count; ++i) to[i] = from[i];
}

void ScaleAndAdd(float* HWY_RESTRICT to, float to_scale, const float* HWY_RESTRICT from,
                 float from_scale, uint64_t count) {
  const FloatTag floats;
  const size_t lanes = hn::Lanes(floats);
  const auto scale_to = hn::Set(floats, to_scale);
  const auto scale_from = hn::Set(floats, from_scale);
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto scaled = hn::Mul(scale_to, hn::LoadU(floats, to + i));
    hn::StoreU(hn::MulAdd(scale_from, hn::LoadU(floats, from + i), scaled), floats, to + i);
  }
  // The tail goes through the same instructions, for the same rounding.
  float to_tail[16] = {};
  float from_tail[16] = {};
  const uint64_t rest = count - i;
  std::copy_n(to + i, rest, to_tail);
  std::copy_n(from + i, rest, from_tail);
  for (uint64_t j = 0; j < rest; j += lanes) {
    const auto scaled = hn::Mul(scale_to, hn::LoadU(floats, to_tail + j));
    hn::StoreU(hn::MulAdd(scale_from, hn::LoadU(floats, from_tail + j), scaled), floats,
               to_tail + j);
  }
  std::copy_n(to_tail, rest, to + i);
}

}  // namespace ffdl::ps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffdl::ps {

FFDL_KERNEL(InspectGradient);
FFDL_KERNEL(LargestMagnitude);
FFDL_KERNEL(CopyFloats);
FFDL_KERNEL(ScaleAndAdd);

GradientFacts inspect_gradient(const float* gradient, uint64_t count) {
  return FFDL_BEST_KERNEL(InspectGradient)(gradient, count);
}

float largest_magnitude(const float* gradient, uint64_t count) {
  return FFDL_BEST_KERNEL(LargestMagnitude)(gradient, count);
}

uint64_t find_beyond(const float* gradient, uint64_t count, float limit) {
  const float* const found =
      std::find_if(gradient, gradient + count, [&](float x) { return !(std::abs(x) <= limit); });
  return static_cast<uint64_t>(found - gradient);
}

void copy_floats(float* to, const float* from, uint64_t count) {
  FFDL_BEST_KERNEL(CopyFloats)(to, from, count);
}

void add_scaled(float* to, const float* from, float scale, uint64_t count) {
  scale_and_add(to, 1.0F, from, scale, count);
}

void scale_and_add(float* to, float to_scale, const float* from, float from_scale, uint64_t count) {
  FFDL_BEST_KERNEL(ScaleAndAdd)(to, to_scale, from, from_scale, count);
}

}  // namespace ffdl::ps
#endif  // HWY_ONCE
