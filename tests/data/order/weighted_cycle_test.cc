#include "data/order/weighted_cycle.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

TEST(WeightedCycle, EveryPlaceHasOneOwnerAndBack) {
  const std::vector<double> weights = {5, 1, 0.02, 3.3};
  ASSERT_OK_AND_ASSIGN(const auto cycle, WeightedCycle::make(weights, "test"));
  std::vector<uint64_t> next(weights.size());
  for (uint64_t place = 0; place < 3500; ++place) {
    for (size_t owner = 0; owner < weights.size(); ++owner) {
      ASSERT_EQ(cycle.owned(owner, place), next[owner]) << place;
    }
    const WeightedCycle::Owned owned = cycle.at(place);
    ASSERT_EQ(owned.number, next[owned.owner]++) << place;
    ASSERT_EQ(cycle.place(owned.owner, owned.number), place);
  }
}

TEST(WeightedCycle, AnyBeginningHasEachInProportion) {
  const std::vector<double> weights = {0.7, 0.2, 0.1};
  ASSERT_OK_AND_ASSIGN(const auto cycle, WeightedCycle::make(weights, "test"));
  for (uint64_t count = 0; count <= 2000; ++count) {
    for (size_t owner = 0; owner < weights.size(); ++owner) {
      const double share = weights[owner] * static_cast<double>(count);
      ASSERT_NEAR(static_cast<double>(cycle.owned(owner, count)), share, 1.5) << count;
    }
  }
}

TEST(WeightedCycle, TheRestOfTheSlotsGoesToTheLargestRests) {
  ASSERT_OK_AND_ASSIGN(const auto cycle, WeightedCycle::make({1, 1, 1}, "test"));
  EXPECT_EQ(cycle.owned(0, 1000), 334U);
  EXPECT_EQ(cycle.owned(1, 1000), 333U);
  EXPECT_EQ(cycle.owned(2, 1000), 333U);
}

TEST(WeightedCycle, RefusesWhatAreNoWeights) {
  const auto refuse = [](const std::vector<double>& weights, const char* text) {
    EXPECT_FAILS(WeightedCycle::make(weights, "cut it"), StatusCode::kInvalidArgument, text);
  };
  refuse({}, "cut it: 0 weights were given");
  refuse({1, 0}, "all of them finite and above 0");
  refuse({1, -1}, "all of them finite and above 0");
  refuse({1, std::nan("")}, "all of them finite and above 0");
  refuse({1, INFINITY}, "all of them finite and above 0");
  refuse({1e308, 1e308}, "all of them finite and above 0");
  refuse({1, 1e-5}, "cut it: weight 1 of 2 is too small");
  refuse(std::vector<double>(1001, 1.0), "of 1001 is too small, or there are too many");
}

}  // namespace
}  // namespace ffdl::data
