#include "ps/segment/pull.h"

#include <gtest/gtest.h>

#include <thread>

#include "ffdl/ps/learner.h"
#include "ps/test_region.h"
#include "support/learners.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

// Moves all elements of a shard together. A snapshot sees a single value during any fold.
TEST(Pull, SnapshotNeverSeesHalfAnUpdate) {
  constexpr uint64_t kParameters = 200'000;
  ParameterServerOptions options;
  options.parameters = kParameters;
  options.rule.learning_rate = 1;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK(server->start());
  StopSource stop;
  std::thread pusher([&] {
    ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, deadline_in(60s)));
    const std::vector<float> ones(kParameters, 1.0F);
    while (!stop.get_token().stop_requested()) {
      ASSERT_OK(learner->push(ones, testing::next_sample(*learner)));
    }
    ASSERT_OK(learner->detach(deadline_in(60s)));
  });
  ASSERT_OK_AND_ASSIGN(auto reader, Learner::attach(*server, deadline_in(60s)));
  std::vector<float> weights(kParameters);
  uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK_AND_ASSIGN(const uint64_t version, reader->pull(weights, PullMode::kSnapshot));
    ASSERT_GE(version, last);
    last = version;
    for (const float weight : weights) ASSERT_EQ(weight, weights[0]);
    // The weights include every gradient of the reported version.
    ASSERT_GE(-weights[0], static_cast<float>(version));
  }
  stop.request_stop();
  pusher.join();
}

TEST(Pull, RelaxedPullGivesTheVersionThatItContains) {
  ParameterServerOptions options;
  options.parameters = 10;
  options.rule.learning_rate = 1;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  server->weights()[3] = 5;
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, deadline_in(60s)));
  ASSERT_OK(learner->push(std::vector<float>(10, 1.0F), testing::next_sample(*learner)));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  std::vector<float> weights(10);
  ASSERT_OK_AND_ASSIGN(const uint64_t version, learner->pull(weights));
  EXPECT_EQ(version, 1U);
  EXPECT_EQ(weights[3], 4);
  EXPECT_EQ(weights[0], -1);
}

TEST(Pull, SnapshotOfADeadServersHalfUpdateGivesUp) {
  ps::TestRegion region(ps::TestRegion::small_config(1, 0));
  region->shard(0).seqlock = 1;  // killed in the middle of an update
  std::vector<float> weights(region->config().parameters);
  EXPECT_FAILS(ps::pull_weights(*region, weights, PullMode::kSnapshot), StatusCode::kTimeout,
               "adopt it");
  EXPECT_OK(ps::pull_weights(*region, weights, PullMode::kRelaxed));
}

}  // namespace
}  // namespace ffdl
