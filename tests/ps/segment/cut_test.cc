#include "ps/segment/cut.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "ffdl/ps/learner.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kCutParameters = 20'000;

ParameterServerOptions options_of(Synchrony synchrony) {
  ParameterServerOptions options;
  options.parameters = kCutParameters;
  options.rule = {.kind = UpdateRuleKind::kMomentum, .learning_rate = 1, .momentum = 0};
  options.synchrony = synchrony;
  options.threads = 3;
  return options;
}

// Pushes ones, so that every weight counts gradients and the ledger counts the same.
void push_ones(const ParameterServer& server, int slot, StopToken stop) {
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(server, deadline_in(60s), {.slot = slot}));
  for (uint64_t sample = 0; !stop.stop_requested(); ++sample) {
    ASSERT_OK_AND_ASSIGN(auto gradient, learner->gradient_slot(deadline_in(60s)));
    std::fill(gradient.begin(), gradient.end(), 1.0F);
    ASSERT_OK(learner->push(
        Gradient::slot(),
        {.partition = static_cast<uint32_t>(slot), .begin = sample, .end = sample + 1}));
  }
  ASSERT_OK(learner->detach(deadline_in(60s)));
}

class CutUnderLoad : public ::testing::TestWithParam<Synchrony> {};

TEST_P(CutUnderLoad, WeightsStateAndLedgerAgree) {
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options_of(GetParam())));
  ASSERT_OK(server->start());
  StopSource stop;
  std::vector<std::thread> learners;
  for (int t = 0; t < 2; ++t)
    learners.emplace_back([&, t] { push_ones(*server, t, stop.get_token()); });
  // All cuts could otherwise be taken before the first push.
  EXPECT_TRUE(comes_true([&] { return server->version() > 0; }));
  uint64_t last = 0;
  for (int i = 0; i < 40; ++i) {
    ASSERT_OK_AND_ASSIGN(const ParameterServerCut cut, server->cut(deadline_in(60s)));
    ASSERT_GE(cut.version, last);
    last = cut.version;
    const uint64_t samples = cut.partitions[0].samples + cut.partitions[1].samples;
    // A round takes the mean of both learners, or of the only one that is attached.
    const float moved = -cut.weights[0];
    if (GetParam() == Synchrony::kBulk) {
      ASSERT_EQ(moved, static_cast<float>(cut.updates));
    } else {
      ASSERT_EQ(moved, static_cast<float>(samples)) << "cut " << i;
    }
    for (const float weight : cut.weights) ASSERT_EQ(weight, cut.weights[0]);
  }
  EXPECT_GT(last, 0U);
  stop.request_stop();
  for (std::thread& learner : learners) learner.join();
}

INSTANTIATE_TEST_SUITE_P(Modes, CutUnderLoad,
                         ::testing::Values(Synchrony::kAsync, Synchrony::kBulk));

TEST(Cut, IsGoneOnFromWithItsVersionStateAndLedger) {
  ParameterServerOptions options = options_of(Synchrony::kAsync);
  options.rule.momentum = 0.5F;
  options.schedule = {.warmup_steps = 10};
  const std::vector<float> ones(kCutParameters, 1.0F);
  const auto push = [&](const ParameterServer& server, uint64_t begin, uint64_t end) {
    ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(server, deadline_in(60s), {.slot = 2}));
    for (uint64_t sample = begin; sample < end; ++sample) {
      ASSERT_OK(learner->push(ones, {.begin = sample, .end = sample + 1}));
      ASSERT_OK(learner->flush(deadline_in(60s)));
    }
  };
  ASSERT_OK_AND_ASSIGN(auto whole, ParameterServer::create(options));
  ASSERT_OK(whole->start());
  push(*whole, 0, 8);

  ASSERT_OK_AND_ASSIGN(auto first, ParameterServer::create(options));
  ASSERT_OK(first->start());
  push(*first, 0, 5);
  ASSERT_OK_AND_ASSIGN(const ParameterServerCut cut, first->cut(deadline_in(60s)));
  ASSERT_OK_AND_ASSIGN(auto second, ParameterServer::create(options, nullptr, &cut));
  ASSERT_OK(second->start());
  EXPECT_EQ(second->version(), 5U);
  push(*second, 5, 8);
  EXPECT_EQ(second->version(), 8U);
  EXPECT_TRUE(
      std::equal(whole->weights().begin(), whole->weights().end(), second->weights().begin()));
  EXPECT_EQ(second->stats().partitions[0].samples, 8U);
  EXPECT_EQ(second->stats().partitions[0].repeated, 0U);
}

TEST(Cut, OfAnotherModelOrRuleIsRefused) {
  ParameterServerOptions options = options_of(Synchrony::kAsync);
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  ASSERT_OK_AND_ASSIGN(const ParameterServerCut cut, server->cut(deadline_in(60s)));
  options.parameters = 5;
  EXPECT_FAILS(ParameterServer::create(options, nullptr, &cut), StatusCode::kInvalidArgument,
               "20000 weights");
  options.parameters = kCutParameters;
  options.rule.kind = UpdateRuleKind::kSgd;
  EXPECT_FAILS(ParameterServer::create(options, nullptr, &cut), StatusCode::kInvalidArgument,
               "values per weight");
}

}  // namespace
}  // namespace ffdl
