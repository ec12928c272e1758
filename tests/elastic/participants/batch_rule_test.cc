#include <gtest/gtest.h>

#include <cmath>

#include "ffdl/tuning/batch_size.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

BatchRule keep(uint64_t samples) {
  BatchRule rule;
  rule.samples = samples;
  return rule;
}

BatchRule grow(uint64_t samples, int workers, LearningRateRule learning_rate) {
  BatchRule rule = keep(samples);
  rule.workers = workers;
  rule.learning_rate = learning_rate;
  return rule;
}

TEST(StepBatch, AKeptBatchIsDividedAndLeavesTheLearningRate) {
  for (const int workers : {1, 2, 3, 7, 64, 100}) {
    uint64_t sum = 0;
    for (int rank = 0; rank < workers; ++rank) {
      ASSERT_OK_AND_ASSIGN(const StepBatch batch, step_batch(keep(64), rank, workers));
      EXPECT_EQ(batch.samples, 64U);
      EXPECT_EQ(batch.learning_rate_factor, 1);
      EXPECT_EQ(batch.progress, 1);
      EXPECT_EQ(batch.micro_batches, batch.share > 0 ? 1U : 0U);
      EXPECT_NEAR(static_cast<double>(batch.share), 64.0 / workers, 1);
      sum += batch.share;
    }
    EXPECT_EQ(sum, 64U) << workers;
  }
}

TEST(StepBatch, AGrowingBatchWithEachRuleOfTheLearningRate) {
  const NoiseScale noise = {32, 1, 1};
  struct Case {
    LearningRateRule rule;
    double factor;
    double progress;
  };
  const double gain = 2 / 1.125;
  const Case cases[] = {{LearningRateRule::kConstant, 1, 1},
                        {LearningRateRule::kLinear, 8, 1},
                        {LearningRateRule::kSquareRoot, std::sqrt(8.0), 1},
                        {LearningRateRule::kAdaScale, gain, gain}};
  for (const Case& each : cases) {
    ASSERT_OK_AND_ASSIGN(const StepBatch batch, step_batch(grow(32, 2, each.rule), 3, 16, noise));
    EXPECT_EQ(batch.samples, 256U);
    EXPECT_EQ(batch.share, 16U);
    EXPECT_DOUBLE_EQ(batch.learning_rate_factor, each.factor);
    EXPECT_DOUBLE_EQ(batch.progress, each.progress);
  }
}

TEST(StepBatch, FewerWorkersThanTheRuleWasMadeForHaveASmallerBatch) {
  ASSERT_OK_AND_ASSIGN(const StepBatch batch,
                       step_batch(grow(64, 4, LearningRateRule::kLinear), 0, 1));
  EXPECT_EQ(batch.samples, 16U);
  EXPECT_DOUBLE_EQ(batch.learning_rate_factor, 0.25);
}

TEST(StepBatch, AdaScaleKeepsTheLearningRateUntilTheNoiseIsKnown) {
  ASSERT_OK_AND_ASSIGN(const StepBatch batch,
                       step_batch(grow(32, 1, LearningRateRule::kAdaScale), 0, 8));
  EXPECT_EQ(batch.learning_rate_factor, 1);
  EXPECT_EQ(batch.progress, 1);
}

TEST(StepBatch, BoundsOfTheStepAndOfAWorkersMemory) {
  BatchRule rule = grow(32, 1, LearningRateRule::kLinear);
  rule.samples_max = 100;
  rule.micro_batch_max = 10;
  ASSERT_OK_AND_ASSIGN(const StepBatch batch, step_batch(rule, 0, 4));
  EXPECT_EQ(batch.samples, 100U);
  EXPECT_EQ(batch.share, 25U);
  EXPECT_EQ(batch.micro_batches, 3U);
  EXPECT_DOUBLE_EQ(batch.learning_rate_factor, 100.0 / 32);
}

TEST(StepBatch, RefusesWhatMakesNoSense) {
  BatchRule inverted = keep(64);
  inverted.samples_max = 10;
  BatchRule negative = keep(64);
  negative.workers = -1;
  const std::pair<BatchRule, std::pair<int, int>> cases[] = {
      {keep(0), {0, 1}},   {keep(64), {0, 0}}, {keep(64), {2, 2}},
      {keep(64), {-1, 2}}, {inverted, {0, 1}}, {negative, {0, 1}}};
  for (const auto& [rule, place] : cases) {
    EXPECT_EQ(step_batch(rule, place.first, place.second).status().code(),
              StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ffdl
