#include "ps/transfer.h"

#include <gtest/gtest.h>

#include <vector>

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
    auto made = ParameterServer::create(options);
    ASSERT_OK(made);
    server_ = std::move(made).value();
    ASSERT_OK(server_->start());
    auto attached = Learner::attach(*server_, deadline_in(10s));
    ASSERT_OK(attached);
    learner_ = std::move(attached).value();
  }

  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<Learner> learner_;
};

TEST_F(Overlapped, LoopOfPushAndPullBesideCompute) {
  std::vector<float> gradients[2] = {std::vector<float>(5'000, 1.0F),
                                     std::vector<float>(5'000, 2.0F)};
  ASSERT_OK(learner_->start_pull());
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_OK_AND_ASSIGN(const Learner::Pulled pulled, learner_->finish_pull(deadline_in(10s)));
    ASSERT_EQ(pulled.weights.size(), 5'000U);
    ASSERT_OK(learner_->start_pull());
    if (i > 0) ASSERT_OK(learner_->finish_push(deadline_in(10s)));
    ASSERT_OK(learner_->start_push(gradients[i % 2], {.begin = i, .end = i + 1}));
  }
  ASSERT_OK(learner_->finish_push(deadline_in(10s)));
  ASSERT_OK(learner_->flush(deadline_in(10s)));
  EXPECT_EQ(server_->weights()[4'999], -300.0F);
  EXPECT_EQ(server_->stats().partitions[0].samples, 200U);
}

TEST_F(Overlapped, PulledWeightsStayWhileTheNextArePulled) {
  ASSERT_OK(learner_->start_pull());
  ASSERT_OK_AND_ASSIGN(const Learner::Pulled first, learner_->finish_pull(deadline_in(10s)));
  ASSERT_OK(learner_->push(std::vector<float>(5'000, 1.0F), {}));
  ASSERT_OK(learner_->flush(deadline_in(10s)));
  ASSERT_OK(learner_->start_pull());
  EXPECT_EQ(first.weights[0], 0.0F);
  ASSERT_OK_AND_ASSIGN(const Learner::Pulled second, learner_->finish_pull(deadline_in(10s)));
  EXPECT_EQ(second.weights[0], -1.0F);
  EXPECT_EQ(second.version, 1U);
}

TEST_F(Overlapped, MistakesOfOrderAreNamed) {
  EXPECT_FAILS(learner_->finish_pull(deadline_in(1ms)), StatusCode::kTimeout, "none was started");
  const std::vector<float> ones(5'000, 1.0F);
  ASSERT_OK(learner_->start_push(ones, {}));
  EXPECT_FAILS(learner_->start_push(ones, {}), StatusCode::kInvalidArgument, "finish_push() first");
  EXPECT_FAILS(learner_->push(ones, {}), StatusCode::kInvalidArgument, "finish_push() first");
  EXPECT_FAILS(learner_->flush(deadline_in(1s)), StatusCode::kInvalidArgument,
               "finish_push() first");
  ASSERT_OK(learner_->finish_push(deadline_in(10s)));
  ASSERT_OK(learner_->flush(deadline_in(10s)));
}

TEST_F(Overlapped, FailuresComeBackFromTheThread) {
  const std::vector<float> small(3);
  ASSERT_OK(learner_->start_push(small, {}));
  EXPECT_FAILS(learner_->finish_push(deadline_in(10s)), StatusCode::kInvalidArgument,
               "5000 parameters");
}

}  // namespace
}  // namespace ffdl
