#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/status.h"

// Selects one choice for each item, so that the weights fit and the sum of the values is greatest
// (the multiple-choice knapsack problem). Items are jobs, weights are workers.
namespace ffdl::cluster {

struct Choice {
  int weight = 0;
  double value = 0;
};

// Stores the choices of all items, end to end; those of one item in order of strictly rising
// weight.
struct Items {
  std::vector<Choice> choices;
  std::vector<uint32_t> begin{0};  // item i owns choices [begin[i], begin[i + 1])

  size_t count() const { return begin.size() - 1; }
  std::span<const Choice> of(size_t item) const {
    return std::span(choices).subspan(begin[item], begin[item + 1] - begin[item]);
  }
  void end_item() { begin.push_back(static_cast<uint32_t>(choices.size())); }
};

// The position of the selected choice within each item.
using Picks = std::vector<uint32_t>;

// Limits the memory of the dynamic program's table of picks.
inline constexpr uint64_t kTableBytesMax = uint64_t{2} << 30;

// Returns the sum of the lightest choice of each item: the least weight of any answer.
int64_t least_weight(const Items& items);

// Solves by the dynamic program over all choices. Needs capacity >= least_weight(items).
// Errors: kExhausted (the table is too large).
Result<Picks> choose_by_table(const Items& items, int64_t capacity);

// Finds the same optimum faster. The relaxation over the concave hulls is the answer if it is
// integral, as it is for concave values. Otherwise its bound removes choices before the table is
// made.
Result<Picks> choose_exact(const Items& items, int64_t capacity);

}  // namespace ffdl::cluster
