#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "ffdl/session.h"
#include "ffdl/tuning/gradient_noise.h"
#include "support/small_model.h"
#include "support/status_matchers.h"

// Tests sessions whose members give their shares in parts. Members are threads of this process.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::SmallModel;

SessionOptions options_of(const std::string& id, int workers) {
  SessionOptions options;
  options.self.id = id;
  options.membership.min_workers = workers;
  options.membership.heartbeat = 50ms;
  options.membership.lease = 15s;  // keeps it alive on a busy machine
  options.membership.gather = 50ms;
  return options;
}

// Returns the weights of two members after three steps. One of them gives its share in `parts`
// parts.
std::vector<float> weights_of_shares_in(int parts) {
  const auto store = open_store("mem://", system_runtime()).value();
  const auto train = [&](const std::string& id, int in_parts) {
    SmallModel model;
    const SessionOptions options = options_of(id, 2);
    const auto session = Session::open(options, model, *store).value();
    Status outcome;
    while (outcome.ok() && session->step() < 3) {
      const bool is_dropped = session->step() == 1;  // and keeps nothing of it
      for (int part = 0; part < in_parts; ++part) {
        model.compute(session->step() * 3 + (id == "a" ? 0 : 1));
        if (in_parts > 1 || is_dropped) EXPECT_OK(session->add_micro_batch(8 / in_parts));
      }
      outcome = session->end_step(is_dropped ? 0 : id == "a" ? 8 : 5).status();
    }
    EXPECT_OK(outcome);
    EXPECT_OK(session->finish());
    return model.weights();
  };
  std::vector<float> of_a;
  std::thread a([&] { of_a = train("a", parts); });
  const std::vector<float> of_b = train("b", 1);
  a.join();
  EXPECT_EQ(of_a, of_b);
  return of_a;
}

// Equal parts have the mean of the parts, to the last bit.
TEST(SessionParts, AShareInPartsIsTheShare) {
  const std::vector<float> whole = weights_of_shares_in(1);
  for (const int parts : {2, 4, 8}) EXPECT_EQ(weights_of_shares_in(parts), whole) << parts;
}

TEST(SessionParts, WhatCannotBeIsSaid) {
  const auto store = open_store("mem://", system_runtime()).value();
  SmallModel model;
  SessionOptions options = options_of("a", 1);
  {
    ASSERT_OK_AND_ASSIGN(const auto session, Session::open(options, model, *store));
    ASSERT_OK(session->add_micro_batch(2));
    ASSERT_OK(session->add_micro_batch(1));
    EXPECT_FAILS(session->end_step(4), StatusCode::kInvalidArgument,
                 "micro-batches with 3 samples were");
    ASSERT_OK_AND_ASSIGN(const StepResult result, session->end_step(3));
    EXPECT_EQ(result, StepResult::kContinue);
    ASSERT_OK(session->finish());
  }
  {
    options.bucket_bytes = 1000;
    ASSERT_OK(begin_again(*store, options.membership.job));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::open(options, model, *store));
    ASSERT_OK(session->begin_average(1, 2));
    EXPECT_FAILS(session->add_micro_batch(2), StatusCode::kInvalidArgument, "begin_average()");
    ASSERT_OK(session->end_step(2).status());
    ASSERT_OK(session->add_micro_batch(2));
    EXPECT_FAILS(session->begin_average(1, 2), StatusCode::kInvalidArgument, "micro-batches");
    ASSERT_OK(session->end_step(2).status());
    ASSERT_OK(session->finish());
    options.bucket_bytes = 0;
  }
  ASSERT_OK(begin_again(*store, options.membership.job));
  options.micro_batch_shares = [] { return std::vector<uint64_t>{2}; };
  {
    ASSERT_OK_AND_ASSIGN(const auto session, Session::open(options, model, *store));
    ASSERT_OK(session->add_micro_batch(1));
    ASSERT_OK(session->add_micro_batch(1));
    EXPECT_FAILS(session->add_micro_batch(1), StatusCode::kInvalidArgument,
                 "all 2 micro-batches of this member");
    ASSERT_OK_AND_ASSIGN(const StepResult result, session->end_step(2));
    EXPECT_EQ(result, StepResult::kContinue);
    ASSERT_OK(session->finish());
  }
  GradientNoiseOptions of_gradients;
  of_gradients.gradients = model.gradients();
  ASSERT_OK_AND_ASSIGN(const auto noise, GradientNoise::create(of_gradients));
  options.participants = {noise.get()};
  EXPECT_FAILS(Session::open(options, model, *store), StatusCode::kInvalidArgument,
               "a participant reads whole gradients");
  options.participants = {};
  options.micro_batch_samples = 0;
  EXPECT_FAILS(Session::open(options, model, *store), StatusCode::kInvalidArgument,
               "micro_batch_samples is 0");
}

}  // namespace
}  // namespace ffdl
