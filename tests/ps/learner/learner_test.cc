#include "ffdl/ps/learner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/learners.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"

// Tests the public interface; learner_impl_test.cc tests the protocol.
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
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(name.text(), deadline_in(60s)));
  EXPECT_EQ(learner->parameters(), 64U);
  EXPECT_EQ(learner->slot(), 0);
  std::vector<float> weights(64);
  for (uint64_t sample = 0; sample < 20; ++sample) {
    ASSERT_OK_AND_ASSIGN(auto gradient, learner->gradient_slot(deadline_in(60s)));
    ASSERT_OK(learner->pull(weights));
    for (size_t i = 0; i < 64; ++i) gradient[i] = weights[i];  // gradient of w * w / 2
    ASSERT_OK(learner->push(Gradient::slot(), {.begin = sample, .end = sample + 1}));
    ASSERT_OK(learner->flush(deadline_in(60s)));
  }
  EXPECT_EQ(server->weights()[63], std::pow(0.5F, 20.0F));
  EXPECT_EQ(learner->stats().mini_batches, 20U);
  EXPECT_EQ(learner->stats().published, 20U);
  ASSERT_OK(learner->detach(deadline_in(60s)));
}

TEST(LearnerApi, GradientInPlaceIsNotCopied) {
  ParameterServerOptions options;
  options.parameters = 64;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, deadline_in(60s)));
  ASSERT_OK_AND_ASSIGN(auto slot, learner->gradient_slot(deadline_in(60s)));
  std::fill(slot.begin(), slot.end(), 1.0F);
  ASSERT_OK(learner->push(Gradient::slot(), {.begin = 0, .end = 1}));
  slot[5] = 9.0F;  // breaks the rules, and shows that the server reads this very memory
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_FLOAT_EQ(server->weights()[5], -0.09F);
  EXPECT_FLOAT_EQ(server->weights()[6], -0.01F);
}

// Tries every form of a push. Nothing of it is stored, and the next push is not affected.
TEST(LearnerApi, AGradientOfNoSampleIsRefused) {
  constexpr uint64_t kGiven = 64;
  ParameterServerOptions options;
  options.parameters = kGiven;
  options.rule.learning_rate = 1;
  options.rows_max = 8;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  auto learner = testing::attach(*server);
  const std::vector<float> ones(kGiven, 1.0F);
  const std::vector<uint16_t> halves(kGiven, 0x3F80);
  const PartGradient part{.begin = 3, .values = std::span(ones).first(2)};
  const SampleRange none{.partition = 1, .begin = 7, .end = 7};
  const std::vector<SampleRange> two_of_none = {{}, none};
  const auto type = DType::kBFloat16;
  for (const bool waits : {false, true}) {  // alone, and beside a gradient that is added up
    const auto refused = [&](const auto& pushed) {
      EXPECT_FAILS(pushed, StatusCode::kInvalidArgument, "no sample is in them");
      EXPECT_FAILS(pushed, StatusCode::kInvalidArgument, "leave out the push");
    };
    refused(learner->push(ones, none));
    refused(learner->push(ones, two_of_none));
    refused(learner->push(ones, std::span<const SampleRange>()));
    refused(learner->push(Gradient::dense(type, halves), none));
    refused(learner->push(Gradient::dense(type, halves), two_of_none));
    refused(learner->push(Gradient::sparse({}, {&part, 1}), none));
    refused(learner->start_push(ones, none));
    ASSERT_OK_AND_ASSIGN(auto slot, learner->gradient_slot(deadline_in(0s)));
    std::fill(slot.begin(), slot.end(), 1.0F);
    refused(learner->push(Gradient::slot(), none));
    refused(learner->push(Gradient::slot(), two_of_none));
    EXPECT_EQ(learner->stats().mini_batches, waits ? 2U : 0U);
    ASSERT_OK(learner->push(Gradient::slot(),
                            testing::next_sample(*learner)));  // the slot still holds its gradient
    if (!waits) ASSERT_OK(learner->push(ones, testing::next_sample(*learner)));
  }
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(server->weights()[0], -3.0F);
  EXPECT_EQ(server->weights()[3], -3.0F);
  EXPECT_EQ(server->stats().learners[0].mini_batches, 3U);
  // An empty range is accepted beside one that has samples.
  const std::vector<SampleRange> both = {none, testing::next_sample(*learner)};
  ASSERT_OK(learner->push(ones, both));
}

}  // namespace
}  // namespace ffdl
