#include "data/order/weighted_cycle.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/errors.h"

namespace ffdl::data {
namespace {

// Returns the slots of each owner: the whole part of its share, and one more for those with the
// largest remainders.
std::vector<uint64_t> slots_of(const std::vector<double>& weights, double sum) {
  std::vector<uint64_t> slots;
  std::vector<std::pair<double, size_t>> rests;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / sum * static_cast<double>(WeightedCycle::kSlots);
    slots.push_back(static_cast<uint64_t>(share));
    rests.emplace_back(std::floor(share) - share, i);
  }
  std::sort(rests.begin(), rests.end());
  const uint64_t given = std::accumulate(slots.begin(), slots.end(), uint64_t{0});
  for (uint64_t i = given; i < WeightedCycle::kSlots; ++i) ++slots[rests[i - given].second];
  return slots;
}

}  // namespace

Result<WeightedCycle> WeightedCycle::make(const std::vector<double>& weights,
                                          std::string_view doing) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const bool are_weights = std::all_of(weights.begin(), weights.end(), [](double weight) {
    return std::isfinite(weight) && weight > 0;
  });
  if (weights.empty() || !are_weights || !std::isfinite(sum)) {
    return base::invalid_argument(
        "{}: {} weights were given; give one weight or more, all of them finite and above 0, with "
        "a finite sum",
        doing, weights.size());
  }
  const std::vector<uint64_t> slots =
      weights.size() > kSlots ? std::vector<uint64_t>(1, 0) : slots_of(weights, sum);
  const auto none = std::find(slots.begin(), slots.end(), uint64_t{0});
  if (none != slots.end()) {
    return base::invalid_argument(
        "{}: weight {} of {} is too small, or there are too many weights; give each at least a "
        "{}th of their sum",
        doing, none - slots.begin(), weights.size(), kSlots);
  }
  WeightedCycle cycle;
  cycle.slots_.resize(weights.size());
  // The owner that is furthest behind its share is next. It is behind, so no owner exceeds its
  // share.
  for (uint64_t slot = 0; slot < kSlots; ++slot) {
    size_t next = 0;
    int64_t most = -1;
    for (size_t i = 0; i < slots.size(); ++i) {
      const auto behind = static_cast<int64_t>(slots[i] * (slot + 1)) -
                          static_cast<int64_t>(kSlots * cycle.slots_[i].size());
      if (behind <= most) continue;
      most = behind;
      next = i;
    }
    cycle.owners_.push_back({next, cycle.slots_[next].size()});
    cycle.slots_[next].push_back(slot);
  }
  return cycle;
}

uint64_t WeightedCycle::owned(size_t owner, uint64_t count) const {
  const std::vector<uint64_t>& slots = slots_[owner];
  const auto rest = std::lower_bound(slots.begin(), slots.end(), count % kSlots) - slots.begin();
  return count / kSlots * slots.size() + static_cast<uint64_t>(rest);
}

uint64_t WeightedCycle::place(size_t owner, uint64_t number) const {
  const std::vector<uint64_t>& slots = slots_[owner];
  return number / slots.size() * kSlots + slots[static_cast<size_t>(number % slots.size())];
}

WeightedCycle::Owned WeightedCycle::at(uint64_t place) const {
  const Owned& first = owners_[static_cast<size_t>(place % kSlots)];
  return {first.owner, place / kSlots * slots_[first.owner].size() + first.number};
}

}  // namespace ffdl::data
