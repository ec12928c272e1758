#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ffdl/update_rule.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using Decay = LearningRateSchedule::Decay;

TEST(UpdateRule, NamesGoBothWays) {
  for (const auto kind : {UpdateRuleKind::kSgd, UpdateRuleKind::kMomentum, UpdateRuleKind::kAdam,
                          UpdateRuleKind::kAdamW}) {
    ASSERT_OK_AND_ASSIGN(const UpdateRuleKind parsed, parse_update_rule(to_string(kind)));
    EXPECT_EQ(parsed, kind);
    ASSERT_OK_AND_ASSIGN(const auto rule, make_update_rule({.kind = kind}));
    EXPECT_EQ(rule->name(), to_string(kind));
  }
  EXPECT_FAILS(parse_update_rule("adagrad2"), StatusCode::kInvalidArgument, "sgd, momentum, adam");
}

TEST(UpdateRule, KeepsAsManyValuesAsTheRuleNeeds) {
  const auto count = [](UpdateRuleKind kind) {
    return make_update_rule({.kind = kind}).value()->state_count();
  };
  EXPECT_EQ(count(UpdateRuleKind::kSgd), 0);
  EXPECT_EQ(count(UpdateRuleKind::kMomentum), 1);
  EXPECT_EQ(count(UpdateRuleKind::kAdam), 2);
  EXPECT_EQ(count(UpdateRuleKind::kAdamW), 2);
}

TEST(UpdateRule, NumbersThatMeanNothingAreRefused) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const UpdateRuleOptions bad[] = {
      {.learning_rate = -1},
      {.learning_rate = kNan},
      {.learning_rate = kInfinity},
      {.momentum = 1},
      {.beta1 = 1},
      {.beta2 = -0.1F},
      {.epsilon = kNan},
      {.weight_decay = -1},
      {.kind = static_cast<UpdateRuleKind>(99)},
  };
  for (const UpdateRuleOptions& options : bad) {
    EXPECT_FAILS(make_update_rule(options), StatusCode::kInvalidArgument, "make an update rule");
  }
}

struct ScheduleCase {
  LearningRateSchedule schedule;
  uint64_t number;
  float factor;
};

TEST(Schedule, FactorsByTable) {
  const LearningRateSchedule constant{};
  const LearningRateSchedule warm{.warmup_steps = 4};
  const LearningRateSchedule linear{
      .decay = Decay::kLinear, .decay_steps = 10, .final_factor = 0.5F};
  const LearningRateSchedule cosine{.decay = Decay::kCosine, .warmup_steps = 2, .decay_steps = 4};
  const LearningRateSchedule steps{.decay = Decay::kStep, .decay_steps = 3, .final_factor = 0.1F};
  const ScheduleCase cases[] = {
      {constant, 1, 1},     {constant, 1'000'000, 1}, {warm, 1, 0.25F},   {warm, 4, 1},
      {warm, 5, 1},         {linear, 1, 1},           {linear, 6, 0.75F}, {linear, 11, 0.5F},
      {linear, 1000, 0.5F}, {cosine, 1, 0.5F},        {cosine, 2, 1},     {cosine, 3, 1},
      {cosine, 5, 0.5F},    {cosine, 7, 0},           {steps, 3, 1},      {steps, 4, 0.1F},
      {steps, 7, 0.01F},
  };
  for (const ScheduleCase& c : cases) {
    EXPECT_NEAR(schedule_factor(c.schedule, c.number), c.factor, 1e-6) << "update " << c.number;
  }
}

}  // namespace
}  // namespace ffdl
