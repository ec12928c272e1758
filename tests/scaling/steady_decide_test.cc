#include "scaling/steady_decide.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::scaling {
namespace {

using namespace std::chrono_literals;

// Wants the size that the test sets.
class Wish final : public ElasticPolicy {
 public:
  explicit Wish(int workers) : workers_(workers) {}
  SizeDecision decide(const Observation&) const override { return {workers_, "a wish"}; }

 private:
  const int workers_;
};

constexpr WallTime kNow = WallTime(1000s);

SteadyDecision decide(int present, int wish, const SteadyOptions& options,
                      const SteadyState& state = {}, WallTime now = kNow) {
  Observation seen;
  seen.workers = present;
  seen.at = now;
  return steady_decide(Wish(wish), options, seen, state);
}

TEST(SteadyDecide, HoldsAPolicyToItsBounds) {
  SteadyOptions at_once{.min_workers = 2, .max_workers = 6, .cooldown = 0s, .confirmations = 1};
  SteadyOptions slowly = at_once;
  slowly.step_max = 1;
  SteadyOptions roughly = at_once;
  roughly.tolerance = 0.5;
  struct Case {
    const char* what;
    SteadyOptions options;
    int present, wish, workers;
  };
  const Case cases[] = {
      {"what it has", at_once, 4, 4, 4},
      {"more", at_once, 4, 6, 6},
      {"fewer", at_once, 4, 2, 2},
      {"too many", at_once, 4, 100, 6},
      {"none", at_once, 4, 0, 2},
      {"beyond the bound that it is at", at_once, 6, 9, 6},
      {"one at a time", slowly, 4, 6, 5},
      {"one fewer at a time", slowly, 4, 2, 3},
      {"about the same", roughly, 4, 5, 4},
      {"half as many again", roughly, 4, 6, 6},
      {"a bound does not wait", roughly, 7, 7, 6},
      {"nor one by one", slowly, 9, 9, 6},
  };
  for (const Case& one : cases) {
    const SteadyDecision decision = decide(one.present, one.wish, one.options);
    EXPECT_EQ(decision.workers, one.workers) << one.what << ": " << decision.reason;
    EXPECT_EQ(decision.proposed, one.wish) << one.what;
    EXPECT_EQ(decision.reason.find("a wish"), 0U) << one.what;
    EXPECT_EQ(decision.state.changed_at.has_value(), one.workers != one.present) << one.what;
  }
}

TEST(SteadyDecide, WaitsForConfirmation) {
  const SteadyOptions options{.cooldown = 0s, .confirmations = 3};
  SteadyState state;
  const auto size = [&](int wish) {
    const SteadyDecision decision = decide(4, wish, options, state);
    state = decision.state;
    return decision.workers;
  };
  EXPECT_EQ(size(6), 4);
  EXPECT_EQ(size(7), 4);
  EXPECT_EQ(size(2), 4);  // another direction starts the count anew
  EXPECT_EQ(size(3), 4);
  EXPECT_EQ(size(4), 4);  // no direction
  EXPECT_EQ(size(3), 4);
  EXPECT_EQ(size(3), 4);
  EXPECT_EQ(size(3), 3);
  EXPECT_EQ(size(3), 4);  // and again
}

TEST(SteadyDecide, CoolsDownAfterAChange) {
  const SteadyOptions options{.cooldown = 60s, .confirmations = 1};
  SteadyState state = decide(2, 4, options).state;
  ASSERT_EQ(state.changed_at, kNow);
  EXPECT_EQ(decide(4, 2, options, state, kNow + 59s).workers, 4);
  EXPECT_EQ(decide(4, 2, options, state, kNow + 60s).workers, 2);
  // A size that is wanted during the cool-down confirms nothing.
  const SteadyOptions twice{.cooldown = 60s, .confirmations = 2};
  SteadyState during = decide(4, 2, twice, state, kNow + 59s).state;
  EXPECT_EQ(decide(4, 2, twice, during, kNow + 60s).workers, 4);
  // A clock that was set back an hour does not extend the cool-down.
  during = decide(4, 2, options, state, kNow - 1h).state;
  EXPECT_EQ(decide(4, 2, options, during, kNow - 1h + 59s).workers, 4);
  EXPECT_EQ(decide(4, 2, options, during, kNow - 1h + 60s).workers, 2);
}

TEST(SteadyDecide, APolicyThatChangesItsMindDoesNotMoveTheJob) {
  const SteadyOptions options{.cooldown = 0s, .confirmations = 2};
  SteadyState state;
  for (int i = 0; i < 100; ++i) {
    const SteadyDecision decision = decide(4, i % 2 == 0 ? 8 : 1, options, state);
    EXPECT_EQ(decision.workers, 4);
    state = decision.state;
  }
}

TEST(CheckSteady, RefusesWhatMakesNoSense) {
  EXPECT_OK(check_steady({}));
  const SteadyOptions wrong[] = {
      {.min_workers = 0},  {.min_workers = 3, .max_workers = 2},
      {.cooldown = -1s},   {.confirmations = 0},
      {.tolerance = -0.1}, {.step_max = -1},
  };
  for (const SteadyOptions& options : wrong) {
    EXPECT_EQ(check_steady(options).code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ffdl::scaling
