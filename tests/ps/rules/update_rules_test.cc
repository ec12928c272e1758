#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ffdl/ps/update_rule.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using Decay = LearningRateSchedule::Decay;

struct BuiltInCase {
  UpdateRuleKind kind;
  std::string_view name;
  int state_count;
  bool takes_mean;
};

TEST(UpdateRule, BuiltInOnesByTable) {
  const BuiltInCase cases[] = {
      {UpdateRuleKind::kSgd, "sgd", 0, false},
      {UpdateRuleKind::kMomentum, "momentum", 1, false},
      {UpdateRuleKind::kAdam, "adam", 2, true},
      {UpdateRuleKind::kAdamW, "adamw", 2, true},
      {UpdateRuleKind::kNesterov, "nesterov", 1, false},
      {UpdateRuleKind::kAdagrad, "adagrad", 1, true},
      {UpdateRuleKind::kAverage, "average", 0, false},
  };
  for (const BuiltInCase& c : cases) {
    EXPECT_EQ(to_string(c.kind), c.name);
    ASSERT_OK_AND_ASSIGN(const UpdateRuleKind parsed, parse_update_rule(c.name));
    EXPECT_EQ(parsed, c.kind);
    ASSERT_OK_AND_ASSIGN(const auto rule, make_update_rule({.kind = c.kind}));
    EXPECT_EQ(rule->name(), c.name);
    EXPECT_EQ(rule->state_count(), c.state_count) << c.name;
    EXPECT_EQ(rule->takes_mean(), c.takes_mean) << c.name;
  }
}

TEST(UpdateRule, AnUnknownNameIsToldAllThatThereAre) {
  EXPECT_FAILS(parse_update_rule("adagrad2"), StatusCode::kInvalidArgument,
               "sgd, momentum, adam, adamw, nesterov, adagrad, average");
  EXPECT_EQ(to_string(static_cast<UpdateRuleKind>(99)), "unknown");
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
