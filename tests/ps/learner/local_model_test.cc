#include "ps/learner/local_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ffdl/ps/parameter_server.h"
#include "ps/segment/layout.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kParameters = 2 * kBlockFloats + 13;
const LearningRateSchedule kSchedule{.warmup_steps = 3};

LocalModel model_of(const UpdateRuleOptions& options) {
  return LocalModel(kParameters, options, make_update_rule(options).value(), kSchedule);
}

std::vector<float> random_floats(uint32_t seed, uint64_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

class LocalModelOfRule : public ::testing::TestWithParam<UpdateRuleKind> {};

TEST_P(LocalModelOfRule, HasTheBitsOfAServerWithTheSameGradients) {
  const UpdateRuleOptions rule{.kind = GetParam(), .learning_rate = 0.1F, .weight_decay = 0.01F};
  LocalModel model = model_of(rule);
  ASSERT_OK_AND_ASSIGN(
      auto server,
      ParameterServer::create({.parameters = kParameters, .rule = rule, .schedule = kSchedule}));
  const std::vector<float> start = random_floats(1, kParameters);
  std::copy(start.begin(), start.end(), model.weights().begin());
  std::copy(start.begin(), start.end(), server->weights().begin());
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, deadline_in(60s)));
  for (uint32_t n = 0; n < 5; ++n) {
    const std::vector<float> values = random_floats(2 + n, kParameters + 1);
    const auto gradient = std::span(values).subspan(1);  // not aligned, not whole blocks
    ASSERT_OK(learner->push(gradient, {.begin = n, .end = n + 1}));
    ASSERT_OK(learner->flush(deadline_in(60s)));
    model.update(gradient);
    ASSERT_TRUE(std::ranges::equal(model.weights(), server->weights())) << "update " << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, LocalModelOfRule,
                         ::testing::Values(UpdateRuleKind::kSgd, UpdateRuleKind::kMomentum,
                                           UpdateRuleKind::kNesterov, UpdateRuleKind::kAdagrad,
                                           UpdateRuleKind::kAdam, UpdateRuleKind::kAdamW));

TEST(LocalModel, WithItsStateClearedItBeginsAgain) {
  const UpdateRuleOptions rule{.kind = UpdateRuleKind::kAdam, .learning_rate = 0.1F};
  LocalModel used = model_of(rule);
  LocalModel fresh = model_of(rule);
  used.update(random_floats(1, kParameters));
  std::ranges::fill(used.weights(), 0.0F);
  used.clear_state();
  const std::vector<float> gradient = random_floats(2, kParameters);
  used.update(gradient);
  fresh.update(gradient);
  EXPECT_TRUE(std::ranges::equal(used.weights(), fresh.weights()));
}

}  // namespace
}  // namespace ffdl::ps
