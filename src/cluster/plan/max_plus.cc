#include "cluster/plan/max_plus.h"

#include "base/kernel_choice.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cluster/plan/max_plus.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ffdl::cluster::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Keeps a block of columns in registers while all choices pass over it. The pick is stored as a
// floating-point number, so that value and pick use lanes of equal size.
void max_plus_row(const double* before, std::span<const Choice> choices, std::span<double> after,
                  std::span<uint16_t> pick) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN double picks[4 * hn::MaxLanes(d)];
  size_t column = 0;
  for (; column + 4 * lanes <= after.size(); column += 4 * lanes) {
    const auto first = hn::Set(d, choices[0].value);
    const double* at = before + column - choices[0].weight;
    auto best0 = hn::Add(hn::LoadU(d, at), first);
    auto best1 = hn::Add(hn::LoadU(d, at + lanes), first);
    auto best2 = hn::Add(hn::LoadU(d, at + 2 * lanes), first);
    auto best3 = hn::Add(hn::LoadU(d, at + 3 * lanes), first);
    auto pick0 = hn::Zero(d), pick1 = pick0, pick2 = pick0, pick3 = pick0;
    for (size_t i = 1; i < choices.size(); ++i) {
      const auto value = hn::Set(d, choices[i].value);
      const auto index = hn::Set(d, static_cast<double>(i));
      at = before + column - choices[i].weight;
      const auto try0 = hn::Add(hn::LoadU(d, at), value);
      const auto try1 = hn::Add(hn::LoadU(d, at + lanes), value);
      const auto try2 = hn::Add(hn::LoadU(d, at + 2 * lanes), value);
      const auto try3 = hn::Add(hn::LoadU(d, at + 3 * lanes), value);
      pick0 = hn::IfThenElse(hn::Gt(try0, best0), index, pick0);
      pick1 = hn::IfThenElse(hn::Gt(try1, best1), index, pick1);
      pick2 = hn::IfThenElse(hn::Gt(try2, best2), index, pick2);
      pick3 = hn::IfThenElse(hn::Gt(try3, best3), index, pick3);
      best0 = hn::Max(best0, try0);
      best1 = hn::Max(best1, try1);
      best2 = hn::Max(best2, try2);
      best3 = hn::Max(best3, try3);
    }
    double* out = after.data() + column;
    hn::StoreU(best0, d, out);
    hn::StoreU(best1, d, out + lanes);
    hn::StoreU(best2, d, out + 2 * lanes);
    hn::StoreU(best3, d, out + 3 * lanes);
    hn::Store(pick0, d, picks);
    hn::Store(pick1, d, picks + lanes);
    hn::Store(pick2, d, picks + 2 * lanes);
    hn::Store(pick3, d, picks + 3 * lanes);
    for (size_t i = 0; i < 4 * lanes; ++i) pick[column + i] = static_cast<uint16_t>(picks[i]);
  }
  for (; column < after.size(); ++column) {
    double best = before[static_cast<ptrdiff_t>(column) - choices[0].weight] + choices[0].value;
    uint16_t best_pick = 0;
    for (size_t i = 1; i < choices.size(); ++i) {
      const double value =
          before[static_cast<ptrdiff_t>(column) - choices[i].weight] + choices[i].value;
      if (value > best) {
        best = value;
        best_pick = static_cast<uint16_t>(i);
      }
    }
    after[column] = best;
    pick[column] = best_pick;
  }
}

}  // namespace ffdl::cluster::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffdl::cluster {

FFDL_KERNEL(max_plus_row);

void max_plus_row(const double* before, std::span<const Choice> choices, std::span<double> after,
                  std::span<uint16_t> pick) {
  FFDL_BEST_KERNEL(max_plus_row)(before, choices, after, pick);
}

}  // namespace ffdl::cluster
#endif
