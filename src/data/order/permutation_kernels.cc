#include "data/order/permutation_kernels.h"

#include <algorithm>

#include "base/kernel_choice.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/order/permutation_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ffdl::data::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLanesMax = 8;
using Tag = hn::CappedTag<uint64_t, kLanesMax>;
using Numbers = hn::Vec<Tag>;

// Computes mix() of base/hash_mix.h.
HWY_INLINE Numbers Mixed(Numbers x) {
  const Tag d;
  x = hn::Add(x, hn::Set(d, 0x9e3779b97f4a7c15U));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<30>(x)), hn::Set(d, 0xbf58476d1ce4e5b9U));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<27>(x)), hn::Set(d, 0x94d049bb133111ebU));
  return hn::Xor(x, hn::ShiftRight<31>(x));
}

// The number of vectors in flight. Each number waits for its own multiplications, which others can
// use meanwhile.
constexpr size_t kSideBySide = 8;

// Passes `vectors` vectors, from `numbers` on, through the rounds.
template <size_t vectors>
HWY_INLINE void Walk(const PermutationRounds& rounds, uint64_t* HWY_RESTRICT numbers) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const Numbers right_mask = hn::Set(d, rounds.right_mask);
  const Numbers left_mask = hn::Set(d, rounds.left_mask);
  Numbers left[vectors];
  Numbers right[vectors];
  for (size_t v = 0; v < vectors; ++v) {
    const Numbers number = hn::LoadU(d, numbers + v * lanes);
    right[v] = hn::And(number, right_mask);
    left[v] = hn::ShiftRightSame(number, rounds.right_bits);
  }
  for (size_t i = 0; i < kPermutationRounds; i += 2) {
    const Numbers even = hn::Set(d, rounds.keys[i]);
    const Numbers odd = hn::Set(d, rounds.keys[i + 1]);
    for (size_t v = 0; v < vectors; ++v) {
      left[v] = hn::Xor(left[v], hn::And(Mixed(hn::Xor(right[v], even)), left_mask));
    }
    for (size_t v = 0; v < vectors; ++v) {
      right[v] = hn::Xor(right[v], hn::And(Mixed(hn::Xor(left[v], odd)), right_mask));
    }
  }
  for (size_t v = 0; v < vectors; ++v) {
    const Numbers walked = hn::Or(hn::ShiftLeftSame(left[v], rounds.right_bits), right[v]);
    hn::StoreU(walked, d, numbers + v * lanes);
  }
}

void WalkRounds(const PermutationRounds& rounds, uint64_t* HWY_RESTRICT numbers, size_t count) {
  const size_t lanes = hn::Lanes(Tag());
  size_t i = 0;
  for (; i + kSideBySide * lanes <= count; i += kSideBySide * lanes) {
    Walk<kSideBySide>(rounds, numbers + i);
  }
  for (; i + lanes <= count; i += lanes) Walk<1>(rounds, numbers + i);
  if (i == count) return;
  uint64_t rest[kLanesMax] = {};
  std::copy_n(numbers + i, count - i, rest);
  Walk<1>(rounds, rest);
  std::copy_n(rest, count - i, numbers + i);
}

}  // namespace ffdl::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffdl::data {

FFDL_KERNEL(WalkRounds);

void walk_rounds(const PermutationRounds& rounds, std::span<uint64_t> numbers) {
  FFDL_BEST_KERNEL(WalkRounds)(rounds, numbers.data(), numbers.size());
}

}  // namespace ffdl::data
#endif  // HWY_ONCE
