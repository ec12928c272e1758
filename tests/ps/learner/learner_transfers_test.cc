#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ffdl/ps/learner.h"
#include "ps/learner/learner_impl.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

class Overlapped : public ::testing::Test {
 protected:
  void SetUp() override {
    ParameterServerOptions options;
    options.parameters = 5'000;
    options.rule.learning_rate = 1;
    options.rows_max = 8;
    auto made = ParameterServer::create(options);
    ASSERT_OK(made);
    server_ = std::move(made).value();
    ASSERT_OK(server_->start());
    auto attached = Learner::attach(*server_, deadline_in(60s));
    ASSERT_OK(attached);
    learner_ = std::move(attached).value();
  }

  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<Learner> learner_;
};

TEST_F(Overlapped, LoopOfPushAndPullBesideCompute) {
  std::vector<float> gradients[2] = {std::vector<float>(5'000, 1.0F),
                                     std::vector<float>(5'000, 2.0F)};
  std::vector<float> weights[2] = {std::vector<float>(5'000, 7.0F),
                                   std::vector<float>(5'000, 7.0F)};
  ASSERT_OK(learner_->start_pull(weights[0]));
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_OK_AND_ASSIGN(const uint64_t version, learner_->finish_pull(deadline_in(60s)));
    EXPECT_LE(version, i);
    ASSERT_LE(weights[i % 2][0], 0.0F);
    ASSERT_OK(learner_->start_pull(weights[(i + 1) % 2]));
    if (i > 0) ASSERT_OK(learner_->finish_push(deadline_in(60s)));
    ASSERT_OK(learner_->start_push(gradients[i % 2], {.begin = i, .end = i + 1}));
  }
  ASSERT_OK(learner_->finish_push(deadline_in(60s)));
  ASSERT_OK(learner_->finish_pull(deadline_in(60s)));  // the weights outlive their last pull
  ASSERT_OK(learner_->flush(deadline_in(60s)));
  EXPECT_EQ(server_->weights()[4'999], -300.0F);
  EXPECT_EQ(server_->stats().partitions[0].samples, 200U);
}

TEST_F(Overlapped, PullsReturnTheVersionOfTheirWeights) {
  std::vector<float> weights(5'000, 7.0F);
  ASSERT_OK(learner_->start_pull(weights));
  ASSERT_OK_AND_ASSIGN(const uint64_t first, learner_->finish_pull(deadline_in(60s)));
  EXPECT_EQ(first, 0U);
  EXPECT_EQ(weights[0], 0.0F);
  ASSERT_OK(learner_->push(std::vector<float>(5'000, 1.0F), {.begin = 0, .end = 1}));
  ASSERT_OK(learner_->flush(deadline_in(60s)));
  ASSERT_OK(learner_->start_pull(weights, PullMode::kSnapshot));
  ASSERT_OK_AND_ASSIGN(const uint64_t second, learner_->finish_pull(deadline_in(60s)));
  EXPECT_EQ(second, 1U);
  EXPECT_EQ(weights[0], -1.0F);
}

// The row numbers, the lists and the samples are read before the calls return.
TEST_F(Overlapped, EveryFormOfAGradientAndRowsOfTables) {
  ASSERT_OK_AND_ASSIGN(const auto slot, learner_->gradient_slot(deadline_in(60s)));
  std::fill(slot.begin(), slot.end(), 1.0F);
  ASSERT_OK(learner_->start_push(Gradient::slot(), {.begin = 0, .end = 1}));
  ASSERT_OK(learner_->finish_push(deadline_in(60s)));
  ASSERT_OK(learner_->flush(deadline_in(60s)));
  const std::vector<uint16_t> twos(5'000, 0x4000);  // the upper half of 2.0F
  ASSERT_OK(learner_->start_push(Gradient::dense(DType::kBFloat16, twos), {.begin = 1, .end = 2}));
  ASSERT_OK(learner_->finish_push(deadline_in(60s)));
  ASSERT_OK(learner_->flush(deadline_in(60s)));

  std::vector<uint64_t> rows = {3, 0};
  const std::vector<float> values(4, 10.0F);
  const std::vector<float> tail(5, 100.0F);
  std::vector<SampleRange> samples = {{.begin = 2, .end = 3},
                                      {.partition = 1, .begin = 0, .end = 1}};
  {
    const std::vector<RowGradient> tables = {
        {.table = 10, .row_size = 2, .rows = rows, .values = values}};
    const std::vector<PartGradient> parts = {{.begin = 4'995, .values = tail}};
    ASSERT_OK(learner_->start_push(Gradient::sparse(tables, parts), samples));
  }
  rows = {0, 0};
  samples.clear();
  ASSERT_OK(learner_->finish_push(deadline_in(60s)));
  ASSERT_OK(learner_->flush(deadline_in(60s)));
  EXPECT_EQ(server_->stats().partitions[0].samples, 3U);
  EXPECT_EQ(server_->stats().partitions[1].samples, 1U);

  rows = {0, 1, 3};
  std::vector<float> pulled(6);
  std::vector<float> end(5);
  const uint64_t whole[] = {0};
  {
    const std::vector<RowWeights> tables = {
        {.table = 10, .row_size = 2, .rows = rows, .values = pulled},
        {.table = 4'995, .row_size = 5, .rows = whole, .values = end}};
    ASSERT_OK(learner_->start_pull_rows(tables));
  }
  rows = {1, 1, 1};
  ASSERT_OK_AND_ASSIGN(const uint64_t version, learner_->finish_pull(deadline_in(60s)));
  EXPECT_EQ(version, 3U);
  EXPECT_EQ(pulled, (std::vector<float>{-13, -13, -3, -3, -13, -13}));
  EXPECT_EQ(end, std::vector<float>(5, -103.0F));
}

TEST_F(Overlapped, AStreamNeedsADevice) {
  int not_a_stream = 0;
  std::vector<float> floats(5'000);
  const char* const why = "has no device";
  EXPECT_FAILS(learner_->start_push(floats, {.begin = 0, .end = 1}, &not_a_stream),
               StatusCode::kInvalidArgument, why);
  EXPECT_FAILS(learner_->start_pull(floats, PullMode::kRelaxed, &not_a_stream),
               StatusCode::kInvalidArgument, why);
  EXPECT_FAILS(learner_->start_pull_rows({}, &not_a_stream), StatusCode::kInvalidArgument, why);
  EXPECT_EQ(learner_->not_pinned(), "");
}

TEST_F(Overlapped, MistakesOfOrderAreNamed) {
  // Fails at once: a wait for a pull that was not started would never end.
  EXPECT_FAILS(learner_->finish_pull(kNoDeadline), StatusCode::kInvalidArgument,
               "none was started");
  EXPECT_FAILS(learner_->finish_push(kNoDeadline), StatusCode::kInvalidArgument,
               "none was started");
  const std::vector<float> ones(5'000, 1.0F);
  ASSERT_OK(learner_->start_push(ones, {.begin = 0, .end = 1}));
  const SampleRange next{.partition = 0, .begin = 1, .end = 2};
  EXPECT_FAILS(learner_->start_push(ones, next), StatusCode::kInvalidArgument,
               "finish_push() first");
  EXPECT_FAILS(learner_->push(ones, next), StatusCode::kInvalidArgument, "finish_push() first");
  EXPECT_FAILS(learner_->flush(deadline_in(1s)), StatusCode::kInvalidArgument,
               "finish_push() first");
  ASSERT_OK(learner_->finish_push(deadline_in(60s)));
  ASSERT_OK(learner_->flush(deadline_in(60s)));
}

TEST_F(Overlapped, FailuresComeBackFromTheThread) {
  std::vector<float> infinite(5'000, 1.0F);
  infinite[3] = std::numeric_limits<float>::infinity();
  ASSERT_OK(learner_->start_push(infinite, {.begin = 0, .end = 1}));
  EXPECT_FAILS(learner_->finish_push(deadline_in(60s)), StatusCode::kInvalidArgument,
               "element 3 of the gradient is inf");
}

TEST_F(Overlapped, WrongSizesAndTypesAreFoundAtOnce) {
  std::vector<float> small(3);
  const SampleRange one{.begin = 0, .end = 1};
  EXPECT_FAILS(learner_->start_push(small, one), StatusCode::kInvalidArgument, "5000 parameters");
  EXPECT_FAILS(learner_->start_pull(small), StatusCode::kInvalidArgument, "of 5000");
  const std::vector<uint16_t> halves(5'000);
  const Gradient wrong = Gradient::dense(DType::kInt16, halves);
  for (const Status& refused :
       {learner_->start_push(wrong, one), learner_->push(wrong, one).status()}) {
    EXPECT_FAILS(refused, StatusCode::kInvalidArgument, "a gradient of int16: give float32");
  }
}

}  // namespace
}  // namespace ffdl
