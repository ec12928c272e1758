#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

// Lists the parameters that a sparse gradient touches as ranges, sorted and disjoint. Pure.
namespace ffdl::ps {

struct TouchedRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool operator==(const TouchedRange&) const = default;
};

// Returns the union of both lists; neighbouring ranges become one.
std::vector<TouchedRange> unite(std::span<const TouchedRange> a, std::span<const TouchedRange> b);

// Calls `visit(part, inside)` for the parts of `range` in order. Each part is entirely inside or
// entirely outside of `list`.
template <class Visit>
void split(const TouchedRange& range, std::span<const TouchedRange> list, Visit&& visit);

// Returns the first range of `list` that ends after `position`.
std::span<const TouchedRange>::iterator first_behind(std::span<const TouchedRange> list,
                                                     uint64_t position);

// Divides a shard's part of a list into steps that each fit one shadow block.
class TouchedSteps {
 public:
  // Cuts the list's parts in [begin, end) at multiples of `block`. Packs them into steps of at most
  // `block` floats, each part padded to a multiple of 16.
  void plan(std::span<const TouchedRange> list, TouchedRange shard, uint64_t block);

  uint64_t size() const { return step_ends_.size(); }
  std::span<const TouchedRange> step(uint64_t n) const {
    const size_t begin = n == 0 ? 0 : step_ends_[n - 1];
    return std::span(parts_).subspan(begin, step_ends_[n] - begin);
  }

 private:
  std::vector<TouchedRange> parts_;
  std::vector<size_t> step_ends_;
};

// Returns the number of floats that a part takes in a shadow block.
inline uint64_t padded_count(const TouchedRange& part) {
  return (part.end - part.begin + 15) / 16 * 16;
}

template <class Visit>
void split(const TouchedRange& range, std::span<const TouchedRange> list, Visit&& visit) {
  uint64_t at = range.begin;
  for (auto inside = first_behind(list, at); at < range.end; ++inside) {
    const bool none = inside == list.end() || inside->begin >= range.end;
    const uint64_t gap_end = none ? range.end : inside->begin;
    if (gap_end > at) visit(TouchedRange{at, gap_end}, false);
    if (none) return;
    const TouchedRange part{std::max(at, inside->begin), std::min(range.end, inside->end)};
    visit(part, true);
    at = part.end;
  }
}

}  // namespace ffdl::ps
