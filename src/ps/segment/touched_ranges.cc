#include "ps/segment/touched_ranges.h"

#include <algorithm>

namespace ffdl::ps {

std::vector<TouchedRange> unite(std::span<const TouchedRange> a, std::span<const TouchedRange> b) {
  std::vector<TouchedRange> all(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), all.begin(),
             [](const TouchedRange& x, const TouchedRange& y) { return x.begin < y.begin; });
  size_t used = 0;
  for (const TouchedRange& range : all) {
    if (used > 0 && range.begin <= all[used - 1].end) {
      all[used - 1].end = std::max(all[used - 1].end, range.end);
    } else {
      all[used++] = range;
    }
  }
  all.resize(used);
  return all;
}

std::span<const TouchedRange>::iterator first_behind(std::span<const TouchedRange> list,
                                                     uint64_t position) {
  return std::upper_bound(
      list.begin(), list.end(), position,
      [](uint64_t place, const TouchedRange& range) { return place < range.end; });
}

void TouchedSteps::plan(std::span<const TouchedRange> list, TouchedRange shard, uint64_t block) {
  parts_.clear();
  step_ends_.clear();
  uint64_t used = block;  // by the current step; initially as if a full step preceded
  for (auto range = first_behind(list, shard.begin); range != list.end(); ++range) {
    const uint64_t end = std::min(range->end, shard.end);
    for (uint64_t at = std::max(range->begin, shard.begin); at < end;) {
      const TouchedRange part{at, std::min(end, (at / block + 1) * block)};
      if (used + padded_count(part) > block) {
        step_ends_.push_back(parts_.size());
        used = 0;
      }
      parts_.push_back(part);
      step_ends_.back() = parts_.size();
      used += padded_count(part);
      at = part.end;
    }
  }
}

}  // namespace ffdl::ps
