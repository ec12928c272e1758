#include "data/ledger/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "data/ledger_text.h"

namespace ffdl::data {
namespace {

using testing::members;
using testing::text_of;

// Returns a state of 23 samples in partitions of 10, 8 to a step.
LedgerState state_of(const std::string& who, uint64_t batch = 8) {
  LedgerRules rules;
  rules.data = {.samples = 23, .partition_samples = 10, .shuffle = Shuffle::kNone};
  rules.epochs = 2;
  rules.order = SampleOrder::kGlobal;
  rules.batch_samples = batch;
  LedgerState state(rules);
  state.change_members(members(who));
  return state;
}

// Runs a step in which member `less_of`, if there is one, takes `less` than its share.
void step(LedgerState& state, size_t less_of = 99, uint64_t less = 0) {
  std::vector<Claim> claims(state.members().size());
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    claims[rank].samples = state.held(rank) - (rank == less_of ? less : 0);
  }
  state.commit(state.last().step + 1, claims);
}

// Returns "0:0-4 1:2-3 | 0:4-8", step by step.
std::string text_of(const std::vector<std::vector<SampleRange>>& steps) {
  std::string text;
  for (size_t i = 0; i < steps.size(); ++i) text += (i > 0 ? " | " : "") + text_of(steps[i]);
  return text;
}

TEST(Forecast, IsWhatComes) {
  struct ForecastCase {
    std::string members;
    uint64_t batch;
    size_t rank;
    size_t steps;
    std::string present;
    std::string ahead;
  };
  const ForecastCase cases[] = {
      {"a", 8, 0, 0, "0:0-8", ""},
      {"a", 8, 0, 1, "0:0-8", "0:8-10 1:0-6"},
      {"a", 8, 0, 3, "0:0-8", "0:8-10 1:0-6 | 1:6-10 2:0-3 | 0:10-18"},
      {"a", 8, 0, 99, "0:0-8",
       "0:8-10 1:0-6 | 1:6-10 2:0-3 | 0:10-18 | 0:18-20 1:10-16 | 1:16-20 2:3-6"},
      {"a", 99, 0, 9, "0:0-10 1:0-10 2:0-3", "0:10-20 1:10-20 2:3-6"},
      {"ab", 8, 0, 3, "0:0-4", "0:8-10 1:0-2 | 1:6-10 | 0:10-14"},
      {"ab", 8, 1, 3, "0:4-8", "1:2-6 | 2:0-3 | 0:14-18"},
      // A member without samples in a step may have some in the next one.
      {"abc", 10, 2, 4, "0:7-10", "1:7-10 |  | 0:17-20 | 1:17-20"},
      {"abc", 2, 2, 2, "", " | "},
  };
  for (const ForecastCase& each : cases) {
    SCOPED_TRACE(each.members + " " + std::to_string(each.batch) + " " + std::to_string(each.rank) +
                 " " + std::to_string(each.steps));
    const LedgerState state = state_of(each.members, each.batch);
    EXPECT_EQ(text_of(state.leases(each.rank)), each.present);
    EXPECT_EQ(text_of(Forecast().of(state, each.rank, each.steps)), each.ahead);
  }
}

TEST(Forecast, GoesOnAsStepsAreTaken) {
  for (size_t rank = 0; rank < 3; ++rank) {
    LedgerState state = state_of("abc");
    Forecast forecast;
    while (!state.is_done()) {
      const auto ahead = forecast.of(state, rank, 3);
      EXPECT_EQ(ahead, Forecast().of(state, rank, 3));
      EXPECT_EQ(forecast.of(state, rank, 1).size(), std::min(ahead.size(), size_t{1}));
      step(state);
      if (!state.is_done()) {
        ASSERT_FALSE(ahead.empty());
        EXPECT_EQ(ahead[0], state.leases(rank));
      }
    }
    EXPECT_TRUE(forecast.of(state, rank, 3).empty());
  }
}

TEST(Forecast, IsMadeAnewWhenAnythingElseCame) {
  struct ForecastCase {
    std::string what;
    uint64_t batch;
    std::function<void(LedgerState&)> comes;
    std::string present;
    std::string ahead;
  };
  // Forecasts of the first of two members. If its present step is as forecast, the next one is not.
  const ForecastCase cases[] = {
      {"it takes less", 8, [](LedgerState& s) { step(s, 0, 1); }, "0:3-4 0:8-10 1:0-1", "1:5-9"},
      {"the other takes less", 8, [](LedgerState& s) { step(s, 1, 2); }, "0:6-10", "1:4-8"},
      {"nobody takes any", 8, [](LedgerState& s) { s.commit(1, std::vector<Claim>(2)); }, "0:0-4",
       "0:8-10 1:0-2"},
      {"a larger batch", 9,
       [](LedgerState& s) {
         s.set_batch(10);
         step(s);
       },
       "0:9-10 1:0-4", "1:9-10 2:0-3"},
      {"a step is left out", 8, [](LedgerState& s) { step(s), step(s); }, "1:6-10", "0:10-14"},
  };
  for (const ForecastCase& each : cases) {
    SCOPED_TRACE(each.what);
    LedgerState state = state_of("ab", each.batch);
    Forecast forecast;
    ASSERT_EQ(forecast.of(state, 0, 4).size(), 4U);
    each.comes(state);
    EXPECT_EQ(text_of(state.leases(0)), each.present);
    EXPECT_EQ(text_of(forecast.of(state, 0, 1)), each.ahead);
    EXPECT_EQ(forecast.of(state, 0, 4), Forecast().of(state, 0, 4));
  }
}

TEST(Forecast, KnowsThatANewcomerHasItsFirstShareInItsSecondStep) {
  LedgerState state = state_of("ab");
  Forecast forecast;
  EXPECT_EQ(text_of(forecast.of(state, 0, 1)), "0:8-10 1:0-2");
  state.change_members(members("abc"), true);
  forecast.forget();
  EXPECT_EQ(text_of(forecast.of(state, 0, 1)), "0:8-10 1:0-1");
  EXPECT_EQ(text_of(state.leases(2)), "");
  EXPECT_EQ(text_of(Forecast().of(state, 2, 1)), "1:4-6");
}

}  // namespace
}  // namespace ffdl::data
