#include "cluster/plan/choose_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace ffdl::cluster {
namespace {

double value_of(const Items& items, const Picks& picks) {
  double value = 0;
  for (size_t item = 0; item < items.count(); ++item) value += items.of(item)[picks[item]].value;
  return value;
}

int64_t weight_of(const Items& items, const Picks& picks) {
  int64_t weight = 0;
  for (size_t item = 0; item < items.count(); ++item) weight += items.of(item)[picks[item]].weight;
  return weight;
}

// Returns the best value by trying every combination.
double best_of_all(const Items& items, size_t item, int64_t capacity) {
  if (capacity < 0) return -INFINITY;
  if (item == items.count()) return 0;
  double best = -INFINITY;
  for (const Choice& choice : items.of(item)) {
    best = std::max(best, choice.value + best_of_all(items, item + 1, capacity - choice.weight));
  }
  return best;
}

struct Shape {
  int items_max;
  int weights_max;
  bool concave;
};

// Returns items with gaps, minimums and humps. Their values tie often (multiples of 1/4) or never.
Items random_items(std::mt19937& random, const Shape& shape) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::uniform_real_distribution<double> real(0, 1);
  const bool coarse = draw(0, 1) == 0;
  const int style = shape.concave ? 0 : draw(1, 3);  // 1: humps, 2: powers of two, 3: a rising list
  Items items;
  const int count = draw(1, shape.items_max);
  for (int item = 0; item < count; ++item) {
    const int largest = draw(1, shape.weights_max);
    double value = real(random), slope = 1;
    for (int weight = draw(0, std::min(2, largest)); weight <= largest; ++weight) {
      const bool listed =
          style == 0 || (style == 2 ? (weight & (weight - 1)) == 0 : draw(0, 2) > 0);
      if (!listed && weight != largest) continue;
      slope *= real(random);
      if (style == 0) value += slope;
      if (style == 1) value = 4 * real(random);
      if (style >= 2) value += real(random);
      items.choices.push_back({weight, coarse && style != 0 ? std::round(4 * value) / 4 : value});
    }
    items.end_item();
  }
  return items;
}

void expect_same_optimum(const Items& items, int64_t capacity) {
  const auto exact = choose_exact(items, capacity);
  const auto table = choose_by_table(items, capacity);
  ASSERT_TRUE(exact.ok() && table.ok());
  ASSERT_LE(weight_of(items, *exact), capacity);
  ASSERT_LE(weight_of(items, *table), capacity);
  ASSERT_NEAR(value_of(items, *exact), value_of(items, *table), 1e-9);
}

TEST(ChooseSizes, EqualsExhaustiveSearchOnAHundredThousandInstances) {
  std::mt19937 random(1);
  for (int instance = 0; instance < 100'000; ++instance) {
    const Items items = random_items(random, {5, 8, instance % 10 == 0});
    const int64_t capacity =
        least_weight(items) + std::uniform_int_distribution<int>(0, 12)(random);
    const auto exact = choose_exact(items, capacity);
    const auto table = choose_by_table(items, capacity);
    ASSERT_TRUE(exact.ok() && table.ok());
    const double best = best_of_all(items, 0, capacity);
    ASSERT_NEAR(value_of(items, *table), best, 1e-9) << "instance " << instance;
    ASSERT_NEAR(value_of(items, *exact), best, 1e-9) << "instance " << instance;
    ASSERT_LE(weight_of(items, *table), capacity);
    ASSERT_LE(weight_of(items, *exact), capacity);
  }
}

TEST(ChooseSizes, EqualsTheTableOnAHundredThousandConcaveInstances) {
  std::mt19937 random(2);
  for (int instance = 0; instance < 100'000; ++instance) {
    const Items items = random_items(random, {8, 12, true});
    ASSERT_NO_FATAL_FAILURE(expect_same_optimum(
        items, least_weight(items) + std::uniform_int_distribution<int>(0, 60)(random)))
        << "instance " << instance;
  }
}

TEST(ChooseSizes, EqualsTheTableOnLargerInstances) {
  std::mt19937 random(3);
  for (int instance = 0; instance < 500; ++instance) {
    const Items items = random_items(random, {120, 64, false});
    ASSERT_NO_FATAL_FAILURE(expect_same_optimum(
        items, least_weight(items) + std::uniform_int_distribution<int>(0, 1500)(random)))
        << "instance " << instance;
  }
}

TEST(ChooseSizes, OfEqualPlansTheLightestIsChosen) {
  Items items;
  items.choices = {{1, 1}, {2, 1}, {4, 2}, {8, 2}};
  items.end_item();
  EXPECT_EQ(choose_exact(items, 100).value(), Picks{2});
  EXPECT_EQ(choose_by_table(items, 100).value(), Picks{2});
  EXPECT_EQ(choose_exact(items, 3).value(), Picks{0});
  EXPECT_EQ(choose_by_table(items, 3).value(), Picks{0});
}

TEST(ChooseSizes, RefusesATableBeyondItsLimit) {
  Items items;
  for (int item = 0; item < 40'000; ++item) {
    items.choices.insert(items.choices.end(), {{1, 0}, {64, 1}});
    items.end_item();
  }
  const auto picks = choose_by_table(items, 2'000'000);
  EXPECT_EQ(picks.status().code(), StatusCode::kExhausted);
  EXPECT_NE(picks.status().message().find("the limit is 2048 MiB"), std::string::npos);
}

}  // namespace
}  // namespace ffdl::cluster
