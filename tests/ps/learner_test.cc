#include "ffdl/learner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/segment_name.h"
#include "support/status_matchers.h"

// The public face; learner_impl_test.cc has the protocol.
namespace ffdl {
namespace {

using namespace std::chrono_literals;

TEST(LearnerApi, LoopOfTheHeaderOverANamedServer) {
  const testing::SegmentName name;
  ParameterServerOptions options;
  options.name = name.text();
  options.parameters = 64;
  options.rule.learning_rate = 0.5F;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  std::fill(server->weights().begin(), server->weights().end(), 1.0F);
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(name.text(), deadline_in(10s)));
  EXPECT_EQ(learner->parameters(), 64U);
  EXPECT_EQ(learner->slot(), 0);
  std::vector<float> weights(64);
  for (uint64_t sample = 0; sample < 20; ++sample) {
    ASSERT_OK_AND_ASSIGN(auto gradient, learner->gradient_slot(deadline_in(10s)));
    ASSERT_OK(learner->pull(weights));
    for (size_t i = 0; i < 64; ++i) gradient[i] = weights[i];  // of half the squared weights
    ASSERT_OK(learner->push({.begin = sample, .end = sample + 1}));
    ASSERT_OK(learner->flush(deadline_in(10s)));
  }
  EXPECT_EQ(server->weights()[63], std::pow(0.5F, 20.0F));
  EXPECT_EQ(learner->stats().mini_batches, 20U);
  EXPECT_EQ(learner->stats().published, 20U);
  ASSERT_OK(learner->detach(deadline_in(10s)));
}

TEST(LearnerApi, GradientInPlaceIsNotCopied) {
  ParameterServerOptions options;
  options.parameters = 64;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, deadline_in(10s)));
  ASSERT_OK_AND_ASSIGN(auto slot, learner->gradient_slot(deadline_in(1s)));
  std::fill(slot.begin(), slot.end(), 1.0F);
  ASSERT_OK(learner->push(SampleRange{}));
  slot[5] = 9.0F;  // against the rules: it shows that the server reads this very memory
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(10s)));
  EXPECT_FLOAT_EQ(server->weights()[5], -0.09F);
  EXPECT_FLOAT_EQ(server->weights()[6], -0.01F);
}

}  // namespace
}  // namespace ffdl
