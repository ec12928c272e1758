#include "ffdl/ps/parameter_server.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "ffdl/ps/learner.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

ParameterServerOptions options_of(uint64_t parameters, std::string name = "") {
  ParameterServerOptions options;
  options.name = std::move(name);
  options.parameters = parameters;
  options.rule.learning_rate = 1;
  return options;
}

// Fills in integers: float32 adds them exactly, in any order.
void fill_gradient(std::span<float> gradient, uint64_t sample) {
  for (uint64_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>((i * 31 + sample * 17) % 7) - 3;
  }
}

TEST(ParameterServer, EveryGradientOfManyThreadsIsFoldedOnce) {
  constexpr int kLearners = 3;
  constexpr uint64_t kMiniBatches = 2'000;
  ParameterServerOptions options = options_of(3'000);
  options.threads = 2;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK(server->start());
  std::vector<std::thread> threads;
  for (int t = 0; t < kLearners; ++t) {
    threads.emplace_back([&, t] {
      ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, deadline_in(60s), {.slot = t}));
      std::vector<float> weights(3'000);
      for (uint64_t sample = 0; sample < kMiniBatches; ++sample) {
        ASSERT_OK_AND_ASSIGN(std::span<float> slot, learner->gradient_slot(deadline_in(60s)));
        ASSERT_OK(learner->pull(weights));
        fill_gradient(slot, sample);
        ASSERT_OK(learner->push(
            Gradient::slot(),
            {.partition = static_cast<uint32_t>(t), .begin = sample, .end = sample + 1}));
      }
      ASSERT_OK(learner->detach(deadline_in(60s)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(server->stop());

  std::vector<float> sum(3'000);
  std::vector<float> gradient(3'000);
  for (uint64_t sample = 0; sample < kMiniBatches; ++sample) {
    fill_gradient(gradient, sample);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] -= kLearners * gradient[i];
  }
  EXPECT_TRUE(std::equal(sum.begin(), sum.end(), server->weights().begin()));
  const ParameterServerStats stats = server->stats();
  ASSERT_EQ(stats.learners.size(), size_t{kLearners});
  for (int t = 0; t < kLearners; ++t) {
    const PartitionProgress& partition = stats.partitions[static_cast<size_t>(t)];
    EXPECT_EQ(partition.committed, kMiniBatches);
    EXPECT_EQ(partition.samples, kMiniBatches);
    EXPECT_EQ(partition.repeated + partition.missing, 0U);
    EXPECT_EQ(stats.learners[static_cast<size_t>(t)].mini_batches, kMiniBatches);
    EXPECT_EQ(stats.learners[static_cast<size_t>(t)].published,
              stats.learners[static_cast<size_t>(t)].folded);
  }
}

TEST(ParameterServer, RefusesOptionsThatMeanNothing) {
  const auto code_of = [](ParameterServerOptions options) {
    return ParameterServer::create(options).status().code();
  };
  auto options = options_of(8);
  const auto expect_refused = [&](auto change) {
    ParameterServerOptions bad = options;
    change(bad);
    EXPECT_EQ(code_of(bad), StatusCode::kInvalidArgument);
  };
  EXPECT_EQ(code_of(options), StatusCode::kOk);
  expect_refused([](auto& o) { o.parameters = 0; });
  expect_refused([](auto& o) { o.parameters = ~uint64_t{0}; });
  expect_refused([](auto& o) { o.learners_max = 0; });
  expect_refused([](auto& o) { o.learners_max = 255; });
  expect_refused([](auto& o) { o.threads = 0; });
  expect_refused([](auto& o) { o.ranges_max = 0; });
  expect_refused([](auto& o) { o.clip_norm = -1; });
  expect_refused([](auto& o) { o.gradient_type = DType::kInt32; });
  expect_refused([](auto& o) { o.clip_value = std::nanf(""); });
  expect_refused([](auto& o) { o.rule.learning_rate = std::nanf(""); });
  expect_refused([](auto& o) { o.name = "a/b"; });
  expect_refused([](auto& o) { o.name = std::string(300, 'x'); });
}

TEST(ParameterServer, NameInUseIsAConflictThatSaysWhatToDo) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options_of(8, name)));
  EXPECT_FAILS(ParameterServer::create(options_of(8, name)), StatusCode::kConflict, "in use");
  EXPECT_FAILS(ParameterServer::adopt(name.text()), StatusCode::kConflict, "lives");
}

TEST(ParameterServer, ServerThatEndsLeavesNothingBehind) {
  const testing::SegmentName name;
  {
    ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options_of(8, name)));
    EXPECT_TRUE(name.exists());
  }
  EXPECT_FALSE(name.exists());
  EXPECT_FAILS(ParameterServer::adopt(name.text()), StatusCode::kNotFound, name.text());
}

TEST(ParameterServer, ServesUntilItIsStopped) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options_of(8)));
  StopSource stop;
  std::thread serving([&] { EXPECT_OK(server->serve(stop.get_token())); });
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, deadline_in(60s)));
  const std::vector<float> gradient(8, 1.0F);
  while (!learner->push(gradient, {.begin = 0, .end = 1}).ok()) {
  }
  ASSERT_OK(learner->detach(deadline_in(60s)));
  stop.request_stop();
  serving.join();
  EXPECT_EQ(server->weights()[0], -1.0F);
  EXPECT_EQ(server->version(), 1U);
}

// A rule of the user: the sign of the gradient.
class SignRule final : public UpdateRule {
 public:
  std::string_view name() const override { return "sign"; }
  int state_count() const override { return 1; }
  bool takes_mean() const override { return true; }
  void apply(const UpdateStep& step, const UpdateBlock& block) const override {
    for (uint64_t i = 0; i < block.count; ++i) {
      const float g = block.gradient[i];
      block.new_weights[i] =
          block.weights[i] - step.learning_rate * static_cast<float>((g > 0) - (g < 0));
      block.new_state[0][i] = block.state[0][i] + 1;
    }
  }
};

TEST(ParameterServer, FoldsWithARuleOfTheUsersOwn) {
  ASSERT_OK_AND_ASSIGN(auto server,
                       ParameterServer::create(options_of(3), std::make_unique<SignRule>()));
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, deadline_in(60s)));
  ASSERT_OK(learner->push(std::vector<float>{5, 0, -0.5F}, {.begin = 0, .end = 1}));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[0], -1);
  EXPECT_EQ(server->weights()[1], 0);
  EXPECT_EQ(server->weights()[2], 1);
}

TEST(ParameterServer, StartedTwiceIsAMistake) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options_of(8)));
  ASSERT_OK(server->start());
  EXPECT_FAILS(server->start(), StatusCode::kInvalidArgument, "runs already");
  ASSERT_OK(server->stop());
  ASSERT_OK(server->stop());
  ASSERT_OK(server->start());
}

}  // namespace
}  // namespace ffdl
