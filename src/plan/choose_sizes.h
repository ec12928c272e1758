#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/status.h"

// One choice for each item, so that the weights fit and the sum of the values is greatest (the
// multiple-choice knapsack problem). Items are jobs, weights are workers.
namespace ffdl::plan {

struct Choice {
  int weight = 0;
  double value = 0;
};

// The choices of all items, end to end; those of one item in order of strictly rising weight.
struct Items {
  std::vector<Choice> choices;
  std::vector<uint32_t> begin{0};  // item i owns choices [begin[i], begin[i + 1])

  size_t count() const { return begin.size() - 1; }
  std::span<const Choice> of(size_t item) const {
    return std::span(choices).subspan(begin[item], begin[item + 1] - begin[item]);
  }
  void end_item() { begin.push_back(static_cast<uint32_t>(choices.size())); }
};

// The position, within each item, of its chosen one.
using Picks = std::vector<uint32_t>;

// Memory of the dynamic program's table of picks, at most.
inline constexpr uint64_t kTableBytesMax = uint64_t{2} << 30;

// The lightest choice of each item added up: what any answer needs.
int64_t least_weight(const Items& items);

// The dynamic program over all choices, and nothing else. Needs capacity >= least_weight(items).
// Errors: kExhausted (the table is too large).
Result<Picks> choose_by_table(const Items& items, int64_t capacity);

// The same optimum, faster: the relaxation over the concave hulls is the answer where it comes out
// whole, as it does for concave values; else its bound removes choices before the table is made.
Result<Picks> choose_exact(const Items& items, int64_t capacity);

}  // namespace ffdl::plan
