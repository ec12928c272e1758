#include "cluster/plan/choose_sizes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/errors.h"
#include "cluster/plan/max_plus.h"

namespace ffdl::cluster {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// A step along an item's concave hull.
struct Increment {
  double slope;  // value for each unit of weight
  uint32_t item;
  uint32_t pick;  // the choice that the step leads to
  int weight;     // the weight it adds
};

// Orders the steepest first; equal slopes in a fixed order, in which the steps of one item stay in
// order.
bool comes_before(const Increment& a, const Increment& b) {
  if (a.slope != b.slope) return a.slope > b.slope;
  return a.item != b.item ? a.item < b.item : a.pick < b.pick;
}

// Appends the steps of one item's upper concave hull, from its lightest choice to its best one.
// Points on a straight piece stay: small steps fill a capacity better than large ones.
void append_hull(std::span<const Choice> choices, uint32_t item, std::vector<Increment>& out) {
  const size_t first = out.size();
  uint32_t last = 0;  // the choice that the hull reaches so far
  for (uint32_t next = 1; next < choices.size(); ++next) {
    if (choices[next].value <= choices[last].value) continue;
    uint32_t from = last;
    int weight = choices[next].weight - choices[from].weight;
    double slope = (choices[next].value - choices[from].value) / weight;
    while (out.size() > first && slope > out.back().slope) {
      out.pop_back();
      from = out.size() > first ? out.back().pick : 0;
      weight = choices[next].weight - choices[from].weight;
      slope = (choices[next].value - choices[from].value) / weight;
    }
    out.push_back({slope, item, next, weight});
    last = next;
  }
}

// The relaxed answer: each item at a hull point, steepest steps first, up to the first that does
// not fit.
struct Relaxed {
  Picks picks;
  double value = 0;
  int64_t room = 0;                 // capacity left over
  std::optional<Increment> broken;  // the step that did not fit; none: nothing more to gain
};

Relaxed relax(const Items& items, int64_t capacity) {
  std::vector<Increment> steps;
  steps.reserve(items.choices.size());
  Relaxed relaxed;
  relaxed.picks.assign(items.count(), 0);
  relaxed.room = capacity - least_weight(items);
  for (uint32_t item = 0; item < items.count(); ++item) append_hull(items.of(item), item, steps);

  // Quickselect by weight: steps before `begin` are taken, and steps from `end` on are not.
  auto begin = steps.begin();
  auto end = steps.end();
  while (begin != end) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, comes_before);
    int64_t weight = 0;
    for (auto step = begin; step <= middle; ++step) weight += step->weight;
    if (weight <= relaxed.room) {
      relaxed.room -= weight;
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  for (auto step = steps.begin(); step != begin; ++step) {
    uint32_t& pick = relaxed.picks[step->item];
    pick = std::max(pick, step->pick);
  }
  if (begin != steps.end()) relaxed.broken = *std::min_element(begin, steps.end(), comes_before);
  for (size_t item = 0; item < items.count(); ++item) {
    relaxed.value += items.of(item)[relaxed.picks[item]].value;
  }
  return relaxed;
}

// Improves integral picks by moving one item at a time to its best choice that still fits. It stops
// after a few rounds or without a gain: a good lower bound suffices.
double improve(const Items& items, Picks& picks, double value, int64_t room) {
  constexpr int kRoundsMax = 16;
  for (int round = 0; round < kRoundsMax && room > 0; ++round) {
    double best_gain = 0;
    size_t best_item = 0;
    uint32_t best_pick = 0;
    for (size_t item = 0; item < items.count(); ++item) {
      const auto choices = items.of(item);
      const Choice now = choices[picks[item]];
      for (uint32_t pick = picks[item] + 1; pick < choices.size(); ++pick) {
        if (choices[pick].weight - now.weight > room) break;
        const double gain = choices[pick].value - now.value;
        if (gain > best_gain) best_gain = gain, best_item = item, best_pick = pick;
      }
    }
    if (best_gain <= 0) break;
    const auto choices = items.of(best_item);
    room -= choices[best_pick].weight - choices[picks[best_item]].weight;
    value += best_gain;
    picks[best_item] = best_pick;
  }
  return value;
}

// Takes the step that did not fit after all. The item that loses least by shrinking makes room.
double force_step(const Items& items, const Increment& step, Picks& picks, double value,
                  int64_t room) {
  const auto stepping = items.of(step.item);
  const Choice target = stepping[step.pick];
  const int64_t missing = target.weight - stepping[picks[step.item]].weight - room;
  double best_change = kImpossible;
  size_t best_item = 0;
  uint32_t best_pick = 0;
  for (size_t item = 0; item < items.count(); ++item) {
    if (item == step.item) continue;
    const auto choices = items.of(item);
    const Choice now = choices[picks[item]];
    for (uint32_t pick = 0; pick < picks[item] && now.weight - choices[pick].weight >= missing;
         ++pick) {
      const double change = choices[pick].value - now.value;
      if (change > best_change) best_change = change, best_item = item, best_pick = pick;
    }
  }
  if (best_change == kImpossible) return kImpossible;
  value += target.value - stepping[picks[step.item]].value + best_change;
  const auto giving = items.of(best_item);
  room = giving[picks[best_item]].weight - giving[best_pick].weight - missing;
  picks[step.item] = step.pick;
  picks[best_item] = best_pick;
  return improve(items, picks, value, room);
}

// The choices that may be part of an answer better than the lower bound. At the price `price` for a
// unit of weight, each item has a best choice. An answer loses at least the differences of its
// choices from these.
struct Reduced {
  Items items;                 // the items with more than one choice left
  std::vector<uint32_t> item;  // the index of each such item
  std::vector<uint32_t> pick;  // position of each remaining choice in its item
  Picks fixed;                 // the only choice left, if any, of each item
  int64_t fixed_weight = 0;
};

Reduced reduce(const Items& items, double price, double gap) {
  Reduced reduced;
  reduced.fixed.assign(items.count(), 0);
  for (uint32_t item = 0; item < items.count(); ++item) {
    const auto choices = items.of(item);
    double best = kImpossible;
    for (const Choice& choice : choices)
      best = std::max(best, choice.value - price * choice.weight);
    const size_t first = reduced.items.choices.size();
    double heaviest_value = kImpossible;
    for (uint32_t pick = 0; pick < choices.size(); ++pick) {
      const Choice& choice = choices[pick];
      if (choice.value <= heaviest_value) continue;  // a lighter one has at least this value
      heaviest_value = choice.value;
      if (best - (choice.value - price * choice.weight) > gap) continue;
      reduced.items.choices.push_back(choice);
      reduced.pick.push_back(pick);
    }
    if (reduced.items.choices.size() - first == 1) {
      reduced.fixed[item] = reduced.pick.back();
      reduced.fixed_weight += choices[reduced.pick.back()].weight;
      reduced.items.choices.pop_back();
      reduced.pick.pop_back();
    } else {
      reduced.items.end_item();
      reduced.item.push_back(item);
    }
  }
  return reduced;
}

}  // namespace

int64_t least_weight(const Items& items) {
  int64_t weight = 0;
  for (size_t item = 0; item < items.count(); ++item) weight += items.of(item)[0].weight;
  return weight;
}

Result<Picks> choose_by_table(const Items& items, int64_t capacity) {
  // Weights are counted from each item's lightest choice, so that every cell of the table is
  // possible.
  int64_t largest_total = 0;
  int largest = 0;
  for (size_t item = 0; item < items.count(); ++item) {
    const auto choices = items.of(item);
    const int range = choices.back().weight - choices[0].weight;
    largest = std::max(largest, range);
    largest_total += range;
  }
  const auto columns =
      static_cast<size_t>(std::min(capacity - least_weight(items), largest_total) + 1);
  if (columns * items.count() > kTableBytesMax / sizeof(uint16_t)) {
    return base::make_error(StatusCode::kExhausted,
                            "plan {} jobs over {} workers: the table needs {} MiB, the limit is {} "
                            "MiB; plan fewer jobs at a time or offer fewer sizes",
                            items.count(), capacity, (columns * items.count() * 2) >> 20,
                            kTableBytesMax >> 20);
  }
  const auto padding = static_cast<size_t>(largest);
  std::vector<double> before(padding + columns, kImpossible), after(before);
  std::fill(before.begin() + largest, before.end(), 0.0);
  std::vector<uint16_t> table(columns * items.count());
  std::vector<Choice> relative;
  for (size_t item = 0; item < items.count(); ++item) {
    const auto choices = items.of(item);
    relative.assign(choices.begin(), choices.end());
    for (Choice& choice : relative) choice.weight -= choices[0].weight;
    max_plus_row(before.data() + padding, relative, std::span(after).subspan(padding),
                 std::span(table).subspan(item * columns, columns));
    before.swap(after);
  }
  // The first column with the greatest value uses the fewest workers.
  auto column = static_cast<size_t>(std::max_element(before.begin() + largest, before.end()) -
                                    before.begin() - largest);
  Picks picks(items.count());
  for (size_t item = items.count(); item-- > 0;) {
    picks[item] = table[item * columns + column];
    const auto choices = items.of(item);
    column -= static_cast<size_t>(choices[picks[item]].weight - choices[0].weight);
  }
  return picks;
}

Result<Picks> choose_exact(const Items& items, int64_t capacity) {
  Relaxed relaxed = relax(items, capacity);
  if (relaxed.room == 0 || !relaxed.broken) return std::move(relaxed.picks);  // the optimum

  const double price = relaxed.broken->slope;
  const double upper = relaxed.value + price * static_cast<double>(relaxed.room);
  Picks forced = relaxed.picks;
  const double lower =
      std::max(improve(items, relaxed.picks, relaxed.value, relaxed.room),
               force_step(items, *relaxed.broken, forced, relaxed.value, relaxed.room));
  // The slack covers the rounding of sums of this size: it may keep a choice too many, never one
  // too few.
  const double slack = 1e-10 * (1 + std::abs(upper));
  const Reduced reduced = reduce(items, price, upper - lower + slack);
  FFDL_ASSIGN_OR_RETURN(const Picks picks,
                        choose_by_table(reduced.items, capacity - reduced.fixed_weight));
  Picks all = reduced.fixed;
  for (size_t i = 0; i < picks.size(); ++i) {
    all[reduced.item[i]] = reduced.pick[reduced.items.begin[i] + picks[i]];
  }
  return all;
}

}  // namespace ffdl::cluster
