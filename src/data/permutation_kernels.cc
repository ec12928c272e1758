#include "data/permutation_kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/permutation_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ffdl::data::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLanesMax = 8;
using Tag = hn::CappedTag<uint64_t, kLanesMax>;
using Numbers = hn::Vec<Tag>;

// mix() of permutation.h.
HWY_INLINE Numbers Mixed(Numbers x) {
  const Tag d;
  x = hn::Add(x, hn::Set(d, 0x9e3779b97f4a7c15U));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<30>(x)), hn::Set(d, 0xbf58476d1ce4e5b9U));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<27>(x)), hn::Set(d, 0x94d049bb133111ebU));
  return hn::Xor(x, hn::ShiftRight<31>(x));
}

HWY_INLINE Numbers Walked(const PermutationRounds& rounds, Numbers number) {
  const Tag d;
  const Numbers right_mask = hn::Set(d, rounds.right_mask);
  const Numbers left_mask = hn::Set(d, rounds.left_mask);
  Numbers right = hn::And(number, right_mask);
  Numbers left = hn::ShiftRightSame(number, rounds.right_bits);
  for (size_t i = 0; i < kPermutationRounds; i += 2) {
    const Numbers even = Mixed(hn::Xor(right, hn::Set(d, rounds.keys[i])));
    left = hn::Xor(left, hn::And(even, left_mask));
    const Numbers odd = Mixed(hn::Xor(left, hn::Set(d, rounds.keys[i + 1])));
    right = hn::Xor(right, hn::And(odd, right_mask));
  }
  return hn::Or(hn::ShiftLeftSame(left, rounds.right_bits), right);
}

void WalkRounds(const PermutationRounds& rounds, uint64_t* HWY_RESTRICT numbers, size_t count) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(Walked(rounds, hn::LoadU(d, numbers + i)), d, numbers + i);
  }
  if (i == count) return;
  uint64_t rest[kLanesMax] = {};
  std::copy_n(numbers + i, count - i, rest);
  hn::StoreU(Walked(rounds, hn::LoadU(d, rest)), d, rest);
  std::copy_n(rest, count - i, numbers + i);
}

}  // namespace ffdl::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffdl::data {

HWY_EXPORT(WalkRounds);

void walk_rounds(const PermutationRounds& rounds, std::span<uint64_t> numbers) {
  HWY_DYNAMIC_DISPATCH(WalkRounds)(rounds, numbers.data(), numbers.size());
}

}  // namespace ffdl::data
#endif  // HWY_ONCE
