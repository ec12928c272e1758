#include "ffdl/ps/averaging_learner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "support/segment_name.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::soon;

constexpr uint64_t kAveraged = 1500;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ParameterServerOptions averaging_server(Synchrony synchrony = Synchrony::kAsync) {
  ParameterServerOptions options;
  options.parameters = kAveraged;
  options.rule.kind = UpdateRuleKind::kAverage;
  options.synchrony = synchrony;
  options.threads = 2;
  return options;
}

// Plain descent on numbers that are exact in float: these tests round nothing.
AveragingOptions every(uint32_t period, float elasticity) {
  return {.rule = {.learning_rate = 0.5F}, .period = period, .elasticity = elasticity};
}

SampleRange sample(uint64_t position, uint32_t partition = 0) {
  return {.partition = partition, .begin = position, .end = position + 1};
}

float target(uint64_t i, int learner) {
  return static_cast<float>((i * 7 + static_cast<uint64_t>(learner) * 5) % 11) - 5;
}

// Returns the gradient of half the squared distance to the learner's target.
std::vector<float> gradient_at(std::span<const float> model, int learner) {
  std::vector<float> gradient(model.size());
  for (uint64_t i = 0; i < model.size(); ++i) gradient[i] = model[i] - target(i, learner);
  return gradient;
}

// Makes one mini-batch of sample `position` of the learner's own partition.
Status one_mini_batch(AveragingLearner& learner, uint64_t position, Time deadline = soon()) {
  const int slot = learner.learner().slot();
  FFDL_ASSIGN_OR_RETURN(const auto model, learner.begin_mini_batch(deadline));
  return learner.step(gradient_at(model, slot), sample(position, static_cast<uint32_t>(slot)));
}

Status mini_batches(AveragingLearner& learner, uint64_t begin, uint64_t end) {
  for (uint64_t position = begin; position < end; ++position) {
    FFDL_RETURN_IF_ERROR(one_mini_batch(learner, position));
  }
  return {};
}

// Makes the same step without the library.
void descend(std::vector<float>& model, int learner) {
  for (uint64_t i = 0; i < model.size(); ++i) model[i] -= 0.5F * (model[i] - target(i, learner));
}

TEST(AveragingLearner, ExchangesEveryPeriod) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(averaging_server()));
  std::fill(server->weights().begin(), server->weights().end(), 8.0F);
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, AveragingLearner::attach(*server, soon(), every(3, 0.25F)));
  std::vector<float> local(kAveraged, 8.0F);
  std::vector<float> centre = local;
  for (uint64_t round = 0; round < 4; ++round) {
    for (uint64_t n = 0; n < 3; ++n) {
      ASSERT_OK_AND_ASSIGN(const auto model, learner->begin_mini_batch(soon()));
      ASSERT_TRUE(std::ranges::equal(model, local)) << "round " << round << ", " << n;
      ASSERT_OK(learner->step(gradient_at(model, 0), sample(round * 3 + n)));
      descend(local, 0);
    }
    EXPECT_EQ(learner->stats().exchanges, round);
    ASSERT_OK(learner->begin_mini_batch(soon()));  // begins the next period: now it exchanges
    EXPECT_EQ(learner->stats().exchanges, round + 1);
    ASSERT_OK(learner->flush(soon()));
    for (uint64_t i = 0; i < kAveraged; ++i) {
      const float move = 0.25F * (local[i] - centre[i]);
      local[i] -= move;
      centre[i] += move;
    }
    ASSERT_TRUE(std::ranges::equal(server->weights(), centre)) << "round " << round;
  }
  EXPECT_EQ(learner->stats().mini_batches, 12U);
  EXPECT_EQ(learner->stats().exchanges, 4U);
  EXPECT_EQ(learner->learner().stats().published, 4U);
  ASSERT_OK(learner->detach(soon()));
}

TEST(AveragingLearner, BulkWithElasticityOneIsTheMeanOfTheModels) {
  constexpr int kLearners = 2;
  constexpr uint64_t kRounds = 4;
  constexpr uint64_t kPeriod = 3;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(averaging_server(Synchrony::kBulk)));
  std::vector<std::vector<float>> means(1, std::vector<float>(kAveraged));
  for (uint64_t round = 0; round < kRounds; ++round) {
    std::vector<float> sum(kAveraged);
    for (int l = 0; l < kLearners; ++l) {
      std::vector<float> model = means.back();
      for (uint64_t n = 0; n < kPeriod; ++n) descend(model, l);
      for (uint64_t i = 0; i < kAveraged; ++i) sum[i] += model[i] / kLearners;
    }
    means.push_back(sum);
  }
  std::vector<std::unique_ptr<AveragingLearner>> learners;
  for (int l = 0; l < kLearners; ++l) {
    ASSERT_OK_AND_ASSIGN(auto learner,
                         AveragingLearner::attach(*server, soon(), every(kPeriod, 1)));
    learners.push_back(std::move(learner));
  }
  ASSERT_OK(server->start());
  std::vector<std::thread> threads;
  for (auto& learner : learners) {
    threads.emplace_back([&means, &learner] {
      for (uint64_t round = 0; round < kRounds; ++round) {
        ASSERT_OK_AND_ASSIGN(const auto model, learner->begin_mini_batch(soon()));
        ASSERT_TRUE(std::ranges::equal(model, means[round])) << "round " << round;
        ASSERT_OK(mini_batches(*learner, round * kPeriod, (round + 1) * kPeriod));
      }
      ASSERT_OK(learner->detach(soon()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(std::ranges::equal(server->weights(), means.back()));
  const ParameterServerStats stats = server->stats();
  for (uint32_t p = 0; p < kLearners; ++p) {
    EXPECT_EQ(stats.partitions[p].samples, kRounds * kPeriod);
    EXPECT_EQ(stats.partitions[p].committed, kRounds * kPeriod);
  }
}

TEST(AveragingLearner, BulkWithLessIsAMoveByTheMeanOfTheDistances) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(averaging_server(Synchrony::kBulk)));
  ASSERT_OK_AND_ASSIGN(auto a, AveragingLearner::attach(*server, soon(), every(1, 0.5F)));
  ASSERT_OK_AND_ASSIGN(auto b, AveragingLearner::attach(*server, soon(), every(1, 0.5F)));
  ASSERT_OK(server->start());
  ASSERT_OK(one_mini_batch(*a, 0));
  ASSERT_OK(one_mini_batch(*b, 0));
  // The round needs a and b. Alone, a waits, and reports the same when it is asked again.
  for (int n = 0; n < 2; ++n) {
    EXPECT_FAILS(a->begin_mini_batch(deadline_in(10ms)), StatusCode::kTimeout, "slowest");
    EXPECT_EQ(a->stats().exchanges, 1U);
  }
  std::thread other([&] { ASSERT_OK(b->flush(soon())); });
  ASSERT_OK_AND_ASSIGN(const auto model, a->begin_mini_batch(soon()));
  other.join();
  for (uint64_t i = 0; i < kAveraged; ++i) {
    const float own = target(i, 0) / 2;  // after one step from 0
    ASSERT_EQ(model[i], own / 2) << i;
    ASSERT_EQ(server->weights()[i], (own / 2 + target(i, 1) / 4) / 2) << i;
  }
}

TEST(AveragingLearner, TwoOfThemMeetWhereBothHaveTheLeastLoss) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(averaging_server()));
  ASSERT_OK(server->start());
  std::vector<std::thread> threads;
  for (int l = 0; l < 2; ++l) {
    threads.emplace_back([&server] {
      AveragingOptions options = every(4, 0.4F);
      options.rule = {.kind = UpdateRuleKind::kMomentum, .learning_rate = 0.05F, .momentum = 0.5F};
      ASSERT_OK_AND_ASSIGN(auto learner, AveragingLearner::attach(*server, soon(), options));
      const auto slot = static_cast<uint32_t>(learner->learner().slot());
      for (uint64_t n = 0; learner->stats().exchanges < 60; ++n) {
        ASSERT_OK_AND_ASSIGN(const auto model, learner->begin_mini_batch(soon()));
        ASSERT_OK(learner->step(gradient_at(model, 3), sample(n, slot)));
      }
      ASSERT_OK(learner->detach(soon()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t i = 0; i < kAveraged; ++i) {
    ASSERT_NEAR(server->weights()[i], target(i, 3), 1e-2) << i;
  }
}

TEST(AveragingLearner, BothSidesMoveByTheNumbersOfTheGradientType) {
  ParameterServerOptions options = averaging_server();
  options.gradient_type = DType::kBFloat16;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, AveragingLearner::attach(*server, soon(), every(1, 0.25F)));
  ASSERT_OK(learner->begin_mini_batch(soon()));
  ASSERT_OK(learner->step(std::vector<float>(kAveraged, -2.00390625F), sample(0)));
  ASSERT_OK(learner->flush(soon()));
  ASSERT_OK_AND_ASSIGN(const auto model, learner->begin_mini_batch(soon()));
  for (uint64_t i = 0; i < kAveraged; ++i) {
    ASSERT_EQ(server->weights()[i], 0.25F) << i;  // rounded from 0.25048828125
    ASSERT_EQ(model[i], 1.001953125F - 0.25F) << i;
  }
}

TEST(AveragingLearner, DroppedBetweenExchangesItsOpenPeriodIsDoneAgain) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(averaging_server()));
  ASSERT_OK(server->start());
  AveragingOptions options = every(4, 0.5F);
  options.slot = 0;
  {
    ASSERT_OK_AND_ASSIGN(auto first, AveragingLearner::attach(*server, soon(), options));
    ASSERT_OK(mini_batches(*first, 0, 7));  // one exchange, and three that stay open
    EXPECT_EQ(first->stats().exchanges, 1U);
  }
  ASSERT_OK_AND_ASSIGN(auto second, AveragingLearner::attach(*server, soon(), options));
  const uint64_t start = second->learner().committed(0);
  EXPECT_EQ(start, 4U);
  ASSERT_OK(second->flush(soon()));  // has no mini-batches of its own
  EXPECT_EQ(second->stats().exchanges, 0U);
  ASSERT_OK_AND_ASSIGN(const auto model, second->begin_mini_batch(soon()));
  EXPECT_TRUE(std::ranges::equal(model, second->learner().live_weights()));  // at the centre
  ASSERT_OK(mini_batches(*second, start, 10));
  ASSERT_OK(second->detach(soon()));  // has two in the open period
  const PartitionProgress progress = server->stats().partitions[0];
  EXPECT_EQ(progress.committed, 10U);
  EXPECT_EQ(progress.samples, 10U);
  EXPECT_EQ(progress.repeated, 0U);
  EXPECT_EQ(progress.missing, 0U);
}

TEST(AveragingLearner, OneExchangeCommitsAllRangesOfItsPeriod) {
  const testing::SegmentName name;
  ParameterServerOptions options = averaging_server();
  options.name = name.text();
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK_AND_ASSIGN(auto learner, AveragingLearner::attach(name.text(), soon(), every(4, 0.5F)));
  const SampleRange samples[] = {{.partition = 2, .begin = 0, .end = 5},
                                 {.partition = 2, .begin = 5, .end = 6},
                                 {.partition = 1, .begin = 0, .end = 3},
                                 {.partition = 1, .begin = 3, .end = 4}};
  const std::vector<float> gradient(kAveraged, 1.0F);
  for (const SampleRange& range : samples) {
    EXPECT_EQ(learner->learner().stats().published, 0U);
    ASSERT_OK(learner->begin_mini_batch(soon()));
    ASSERT_OK(learner->step(gradient, range));
  }
  ASSERT_OK(server->start());
  ASSERT_OK(learner->detach(soon()));
  const ParameterServerStats stats = server->stats();
  EXPECT_EQ(stats.version, 1U);
  EXPECT_EQ(stats.partitions[1].committed, 4U);
  EXPECT_EQ(stats.partitions[2].committed, 6U);
  EXPECT_EQ(stats.partitions[2].samples, 6U);
}

// The gradient would move the local model, and with it the centre.
TEST(AveragingLearner, AStepOverNoSampleIsRefused) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(averaging_server()));
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, AveragingLearner::attach(*server, soon(), every(1, 1.0F)));
  const std::vector<float> gradient(kAveraged, 1.0F);
  ASSERT_OK(learner->begin_mini_batch(soon()));
  EXPECT_FAILS(learner->step(gradient, {}), StatusCode::kInvalidArgument, "no sample is in them");
  EXPECT_FAILS(learner->step(gradient, {.partition = 1, .begin = 4, .end = 4}),
               StatusCode::kInvalidArgument, "leave out the step");
  ASSERT_OK(learner->flush(soon()));
  EXPECT_EQ(learner->stats().mini_batches, 0U);
  EXPECT_EQ(server->weights()[0], 0.0F);
  ASSERT_OK(learner->begin_mini_batch(soon()));
  ASSERT_OK(learner->step(gradient, {.partition = 1, .begin = 4, .end = 5}));
  ASSERT_OK(learner->flush(soon()));
  EXPECT_NE(server->weights()[0], 0.0F);
}

TEST(AveragingLearner, ALateServerMakesThePeriodLonger) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(averaging_server()));
  ASSERT_OK_AND_ASSIGN(auto learner, AveragingLearner::attach(*server, soon(), every(2, 0.5F)));
  ASSERT_OK(mini_batches(*learner, 0, 7));
  EXPECT_EQ(learner->stats().exchanges, 1U);
  EXPECT_EQ(learner->stats().late, 3U);  // the second period has five instead of two
  EXPECT_EQ(learner->learner().committed(0), 2U);
  EXPECT_FAILS(learner->flush(deadline_in(10ms)), StatusCode::kTimeout, "not folded");
  EXPECT_EQ(learner->stats().exchanges, 1U);
  ASSERT_OK(server->start());
  ASSERT_OK(learner->detach(soon()));
  EXPECT_EQ(learner->stats().exchanges, 2U);
  EXPECT_EQ(learner->learner().stats().accumulated, 0U);
  std::vector<float> local(kAveraged);
  std::vector<float> centre(kAveraged);
  for (const int mini_batches : {2, 5}) {
    for (int n = 0; n < mini_batches; ++n) descend(local, 0);
    for (uint64_t i = 0; i < kAveraged; ++i) {
      const float move = 0.5F * (local[i] - centre[i]);
      local[i] -= move;
      centre[i] += move;
    }
  }
  EXPECT_TRUE(std::ranges::equal(server->weights(), centre));
  EXPECT_EQ(server->stats().partitions[0].samples, 7U);
}

TEST(AveragingLearner, AStepThatIsRefusedHasNotHappened) {
  ParameterServerOptions options = averaging_server();
  options.ranges_max = 2;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK_AND_ASSIGN(auto learner, AveragingLearner::attach(*server, soon(), every(8, 0.5F)));
  std::vector<float> gradient(kAveraged, 1.0F);
  EXPECT_FAILS(learner->step(gradient, sample(0)), StatusCode::kInvalidArgument,
               "begin_mini_batch()");
  ASSERT_OK_AND_ASSIGN(const auto model, learner->begin_mini_batch(soon()));
  EXPECT_FAILS(learner->step(std::span(gradient).first(3), sample(0)), StatusCode::kInvalidArgument,
               "3 floats");
  EXPECT_FAILS(learner->step(gradient, sample(0, 99)), StatusCode::kInvalidArgument, "partitions");
  EXPECT_FAILS(learner->step(gradient, {.begin = 2, .end = 1}), StatusCode::kInvalidArgument,
               "before it ends");
  gradient[7] = kNan;
  EXPECT_FAILS(learner->step(gradient, sample(0)), StatusCode::kInvalidArgument, "element 7");
  EXPECT_EQ(model[7], 0.0F);
  EXPECT_EQ(learner->stats().mini_batches, 0U);
  gradient[7] = 1;
  ASSERT_OK(learner->step(gradient, sample(0)));
  EXPECT_FAILS(learner->step(gradient, sample(1)), StatusCode::kInvalidArgument,
               "begin_mini_batch()");
  ASSERT_OK(learner->begin_mini_batch(soon()));
  EXPECT_FAILS(learner->step(gradient, sample(0)), StatusCode::kInvalidArgument, "before 1");
  ASSERT_OK(learner->step(gradient, sample(0, 1)));
  ASSERT_OK(learner->begin_mini_batch(soon()));
  EXPECT_FAILS(learner->step(gradient, sample(0, 2)), StatusCode::kExhausted, "at most 2");
  EXPECT_EQ(learner->stats().mini_batches, 2U);
}

TEST(AveragingLearner, SkippedGradientsAreCountedAndTheirSamplesCommitted) {
  ParameterServerOptions options = averaging_server();
  options.non_finite = NonFinite::kSkip;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, AveragingLearner::attach(*server, soon(), every(2, 0.5F)));
  ASSERT_OK(one_mini_batch(*learner, 0));
  ASSERT_OK_AND_ASSIGN(const auto model, learner->begin_mini_batch(soon()));
  const std::vector<float> before(model.begin(), model.end());
  ASSERT_OK(learner->step(std::vector<float>(kAveraged, kNan), sample(1)));
  EXPECT_TRUE(std::ranges::equal(model, before));
  ASSERT_OK(learner->detach(soon()));
  EXPECT_EQ(learner->stats().skipped, 1U);
  EXPECT_EQ(learner->stats().restarts, 0U);
  EXPECT_EQ(server->stats().partitions[0].samples, 2U);
  for (uint64_t i = 0; i < kAveraged; ++i) ASSERT_EQ(server->weights()[i], before[i] / 2) << i;
}

TEST(AveragingLearner, AModelThatDivergedIsRefusedOrBeginsAgainAtTheCentre) {
  for (const NonFinite policy : {NonFinite::kReject, NonFinite::kSkip}) {
    ParameterServerOptions options = averaging_server();
    options.non_finite = policy;
    ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
    std::fill(server->weights().begin(), server->weights().end(), 3.0F);
    ASSERT_OK(server->start());
    AveragingOptions wild = every(1, 0.5F);
    wild.rule.learning_rate = 1e38F;
    ASSERT_OK_AND_ASSIGN(auto learner, AveragingLearner::attach(*server, soon(), wild));
    ASSERT_OK(learner->begin_mini_batch(soon()));
    ASSERT_OK(learner->step(std::vector<float>(kAveraged, 1e10F), sample(0)));
    const auto model = learner->begin_mini_batch(soon());
    if (policy == NonFinite::kReject) {
      EXPECT_FAILS(model, StatusCode::kInvalidArgument, "inf");
      EXPECT_EQ(learner->learner().committed(0), 0U);
      EXPECT_EQ(learner->stats().exchanges, 0U);
    } else {
      ASSERT_OK(model);
      EXPECT_EQ((*model)[0], 3.0F);
      EXPECT_EQ(learner->stats().restarts, 1U);
      ASSERT_OK(learner->detach(soon()));
      EXPECT_EQ(server->stats().partitions[0].samples, 1U);
    }
    EXPECT_EQ(server->weights()[0], 3.0F);
  }
}

TEST(AveragingLearner, OptionsThatMeanNothingAreRefused) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(averaging_server()));
  AveragingOptions bad_rule = every(1, 0.5F);
  bad_rule.rule.momentum = 2;
  AveragingOptions bad_schedule = every(1, 0.5F);
  bad_schedule.schedule.final_factor = -1;
  const std::pair<AveragingOptions, const char*> cases[] = {
      {every(0, 0.5F), "period"},     {every(1, 0), "elasticity is 0"},
      {every(1, 1.5F), "elasticity"}, {every(1, kNan), "elasticity is nan"},
      {bad_rule, "momentum is 2"},    {bad_schedule, "final_factor"},
  };
  for (const auto& [options, complaint] : cases) {
    EXPECT_FAILS(AveragingLearner::attach(*server, soon(), options), StatusCode::kInvalidArgument,
                 complaint);
  }
}

class CustomRule final : public UpdateRule {
 public:
  std::string_view name() const override { return "average"; }
  int state_count() const override { return 0; }
  bool takes_mean() const override { return false; }
  void apply(const UpdateStep&, const UpdateBlock&) const override {}
};

TEST(AveragingLearner, AServerThatDoesNotAverageIsRefusedAndItsSlotGivenBack) {
  const auto refuse = [](ParameterServerOptions options, std::unique_ptr<UpdateRule> custom,
                         const char* complaint) {
    options.learners_max = 1;
    ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options, std::move(custom)));
    for (int n = 0; n < 2; ++n) {
      EXPECT_FAILS(AveragingLearner::attach(*server, deadline_in(0s)), StatusCode::kInvalidArgument,
                   complaint);
    }
  };
  ParameterServerOptions sgd = averaging_server();
  sgd.rule.kind = UpdateRuleKind::kSgd;
  ParameterServerOptions clip_value = averaging_server();
  clip_value.clip_value = 1;
  ParameterServerOptions clip_norm = averaging_server();
  clip_norm.clip_norm = 1;
  refuse(sgd, nullptr, "create the server with the built-in rule 'average'");
  refuse(averaging_server(), std::make_unique<CustomRule>(), "built-in");
  refuse(clip_value, nullptr, "clip_value 1");
  refuse(clip_norm, nullptr, "clip_norm 1");
}

}  // namespace
}  // namespace ffdl
