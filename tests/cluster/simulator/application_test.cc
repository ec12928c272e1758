#include "cluster/simulator/application.h"

#include <gtest/gtest.h>

namespace ffdl::cluster {
namespace {

TEST(BatchLimits, SplitsABatchOverWorkersAndSteps) {
  const BatchLimits limits{.global_min = 16, .global_max = 256, .local_min = 4, .local_max = 32};
  EXPECT_EQ(limits.split(64, 4), (BatchSplit{16, 0}));
  EXPECT_EQ(limits.split(66, 4), (BatchSplit{17, 0}));
  EXPECT_EQ(limits.split(256, 4), (BatchSplit{32, 1}));  // 64 for each worker do not fit at once
  EXPECT_EQ(limits.split(16, 1), (BatchSplit{16, 0}));
  EXPECT_EQ(limits.split(32, 1),
            (BatchSplit{16, 1}));  // one worker needs two parts beyond the smallest
  EXPECT_EQ(limits.split(255, 2), (BatchSplit{32, 3}));
  EXPECT_EQ(limits.split(256, 3), (BatchSplit{28, 2}));  // 29 would exceed the largest batch
  EXPECT_EQ(limits.split(256, 3).global(3), 252);
}

ApplicationProfile profile() {
  ApplicationProfile net;
  net.name = "net";
  for (const int64_t batch : {8, 16, 64}) {
    const auto size = static_cast<double>(batch);
    net.placed.push_back({{1}, batch, 0.1 + size, 0});
    net.placed.push_back({{1, 2}, batch, 0.3 + size, 0.2});
    if (batch > 16) continue;
    net.spread.push_back({{1, 1, 1, 1, 1, 1}, batch, 1 + size, 0.5});
  }
  net.epochs[16] = {{10, 1, 4}, {22, 1, 8}};
  net.epochs[1024] = {{11, 2, 4}, {21, 2, 8}, {30, 1, 1}};
  return net;
}

TEST(Application, KnowsItsLimitsAndEpochs) {
  const auto app = Application::from_profile(profile()).value();
  EXPECT_EQ(app.limits().global_min, 16);
  EXPECT_EQ(app.limits().global_max, 1024);
  EXPECT_EQ(app.limits().local_min, 8);
  EXPECT_EQ(app.limits().local_max, 16);  // 64 is missing for many nodes, since it did not fit
  EXPECT_EQ(app.epochs(), 2u);
  EXPECT_EQ(app.progress_after(0), 10);
  EXPECT_EQ(app.progress_after(1), 21);
}

TEST(Application, TimesAStepWhereverItWasPlaced) {
  auto app = Application::from_profile(profile()).value();
  EXPECT_DOUBLE_EQ(app.step_time(std::vector{1}, 16)->step_s, 16.1);
  EXPECT_DOUBLE_EQ(app.step_time(std::vector{1}, 40)->step_s, 40.1);
  EXPECT_DOUBLE_EQ(app.step_time(std::vector{2, 1}, 8)->step_s, 8.3);  // the same ring as 1, 2
  EXPECT_FALSE(app.step_time(std::vector{1}, 65));
  EXPECT_FALSE(app.step_time(std::vector{1}, 7));
  EXPECT_FALSE(app.step_time(std::vector{4, 4, 4}, 8));
  EXPECT_DOUBLE_EQ((StepTime{2, 0.5}).total_s(3), 6.5);
}

TEST(Application, MixesStatisticsOfMeasuredBatches) {
  const auto app = Application::from_profile(profile()).value();
  EXPECT_DOUBLE_EQ(app.gradients(16, 1).var, 8);
  EXPECT_DOUBLE_EQ(app.gradients(520, 0).sqr, 1.5);
  EXPECT_DOUBLE_EQ(app.gradients(1024, 0).sqr, 2);
  EXPECT_DOUBLE_EQ((GradientStatistics{1, 7}).gain(7), 4);
  EXPECT_DOUBLE_EQ((GradientStatistics{}).gain(7), 1);
}

TEST(Application, OfATableHasItsCellsAndNothingElse) {
  ApplicationProfile table;
  table.name = "net";
  table.throughputs = {{64, {{1, 2.0}, {4, 5.0}}}, {100, {{4, 4.0}, {8, 10.0}}}};
  auto app = Application::from_profile(table).value();
  EXPECT_TRUE(app.is_table());
  EXPECT_EQ(app.batches(), (std::vector<int64_t>{64, 100}));
  EXPECT_DOUBLE_EQ(app.step_time(std::vector{4}, 64)->step_s, 0.2);
  EXPECT_DOUBLE_EQ(app.step_time(std::vector{1, 3}, 64)->step_s, 0.2);  // on any nodes
  EXPECT_FALSE(app.step_time(std::vector{2}, 64));
  EXPECT_FALSE(app.step_time(std::vector{1}, 100));
  EXPECT_FALSE(app.step_time(std::vector{4}, 80));
  EXPECT_EQ(app.best_batch(4), 100);
  EXPECT_EQ(app.best_batch(1), 64);
  EXPECT_EQ(app.best_batch(3), std::nullopt);
  EXPECT_EQ(app.least_workers(100), 4);
  const BatchSplit split = app.limits().split(100, 8);  // 12 and 13 samples per worker
  EXPECT_EQ(split.global(8), 100);
  EXPECT_EQ(app.gradients(64, 0).gain(2), 2);
  table.throughputs[64][2] = -1;
  EXPECT_EQ(Application::from_profile(table).status().code(), StatusCode::kInvalidArgument);
}

TEST(Application, NeedsStepTimesAndEpochs) {
  EXPECT_EQ(Application::from_profile({}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ffdl::cluster
