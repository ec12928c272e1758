#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ffdl/session.h"
#include "ffdl/tuning/gradient_noise.h"
#include "support/small_model.h"
#include "support/status_matchers.h"

// Tests sessions that average gradients while later ones are computed. Members are threads of this
// process.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::SmallModel;

class SessionBuckets : public ::testing::Test {
 protected:
  SessionBuckets() : store_(open_store("mem://", system_runtime()).value()) {}

  static SessionOptions options(const std::string& job, const std::string& id, int workers) {
    SessionOptions options;
    options.self.id = id;
    options.membership.job = job;
    options.membership.min_workers = workers;
    options.membership.heartbeat = 50ms;
    options.membership.lease = 15s;  // keeps it alive on a busy machine
    options.membership.gather = 50ms;
    options.verify_state = true;
    return options;
  }
  Result<std::unique_ptr<Session>> open(const SessionOptions& options, SmallModel& model) {
    return Session::open(options, model, *store_);
  }

  // Returns the weights after some steps of two members with unequal samples. The named members
  // begin early.
  std::vector<float> train(const std::string& job, uint64_t bucket_bytes,
                           const std::string& early) {
    constexpr uint64_t kSteps = 20;
    std::map<std::string, std::vector<float>> weights = {{"a", {}}, {"b", {}}};
    std::vector<std::thread> members;
    for (auto& [id, its] : weights) {
      members.emplace_back([&, id] {
        const uint64_t samples = id == "a" ? 3 : 4;
        SmallModel model;
        SessionOptions mine = options(job, id, 2);
        mine.bucket_bytes = bucket_bytes;
        auto session = open(mine, model);
        ASSERT_OK(session);
        while ((*session)->step() < kSteps) {
          model.compute((*session)->step() * samples);
          if (early.find(id) != std::string::npos) {
            ASSERT_OK((*session)->begin_average(1, samples));
            ASSERT_OK((*session)->begin_average(2, samples));
          }
          auto result = (*session)->end_step(samples);
          ASSERT_OK(result);
          EXPECT_EQ(*result, StepResult::kContinue);
        }
        its = model.weights();
        EXPECT_OK((*session)->finish());
      });
    }
    for (std::thread& member : members) member.join();
    EXPECT_EQ(weights["a"], weights["b"]);
    return weights["a"];
  }

  const std::unique_ptr<Store> store_;
};

TEST_F(SessionBuckets, TheSameBitsHoweverEarly) {
  const auto expected = train("plain", 0, "");
  EXPECT_EQ(train("all", 1, "ab"), expected);
  EXPECT_EQ(train("one", 1, "b"), expected);
  EXPECT_EQ(train("nobody", 1, ""), expected);
}

TEST_F(SessionBuckets, ABucketIsAveragedBeforeTheOtherIsComputed) {
  SmallModel model;
  SessionOptions mine = options("job", "a", 1);
  mine.bucket_bytes = 1;
  ASSERT_OK_AND_ASSIGN(const auto session, open(mine, model));
  model.compute(0);
  ASSERT_OK(session->begin_average(1, 4));
  // A step of a single member waits for no other; the task only needs its turn.
  for (uint64_t step = 1; session->stats().early_buckets == 0; ++step) {
    ASSERT_OK(session->begin_average(2, 4));
    ASSERT_OK_AND_ASSIGN(const StepResult result, session->end_step(4));
    EXPECT_EQ(result, StepResult::kContinue);
    EXPECT_EQ(session->step(), step);
    model.compute(step);
    ASSERT_OK(session->begin_average(1, 4));
    std::this_thread::yield();
  }
  EXPECT_FAILS(session->finish(), StatusCode::kInvalidArgument, "a step are being averaged");
  ASSERT_OK(session->end_step(4));
  EXPECT_OK(session->finish());
}

// One member has contributed a part of a step, or nothing yet, when it dies. Steps count from the
// first one that both did together.
TEST_F(SessionBuckets, WhoIsGoneInTheMiddleOfAStepEndsNobodysSession) {
  constexpr uint64_t kSteps = 40;
  testing::StepsTogether together(2);
  const auto train = [this, &together](const std::string& id, uint64_t gone_at) {
    SmallModel model;
    SessionOptions mine = options("job", id, 1);
    mine.membership.lease = 3s;  // the other one waits for it
    mine.bucket_bytes = 1;
    auto session = open(mine, model);
    ASSERT_OK(session);
    uint64_t steps = 0;
    while (steps < kSteps) {
      model.compute((*session)->step());
      ASSERT_OK((*session)->begin_average(1, 2));
      if (steps >= gone_at) return;
      ASSERT_OK((*session)->begin_average(2, 2));
      ASSERT_OK_AND_ASSIGN(const StepResult result, (*session)->end_step(2));
      steps = together.since(**session, result);
    }
    EXPECT_OK((*session)->finish());
  };
  std::thread gone(train, "b", 20);
  train("a", kSteps);
  gone.join();
}

TEST_F(SessionBuckets, OtherBucketsAreRefused) {
  SmallModel model;
  SessionOptions first = options("job", "a", 1);
  first.bucket_bytes = 1;
  std::atomic<bool> is_refused = false;
  std::promise<void> trains;
  std::thread member([&] {
    auto session = open(first, model);
    ASSERT_OK(session);
    while (!is_refused || (*session)->world().size() > 1) {
      model.compute((*session)->step());
      ASSERT_OK((*session)->end_step(1));
      if ((*session)->step() == 1) trains.set_value();
    }
    EXPECT_OK((*session)->finish());
  });
  SmallModel other;
  const SessionOptions plain = options("job", "b", 1);
  trains.get_future().wait();
  EXPECT_FAILS(open(plain, other), StatusCode::kInvalidArgument, "gradients, buckets or");
  is_refused = true;
  member.join();
}

TEST_F(SessionBuckets, WhatCannotBeIsSaid) {
  SmallModel model;
  SessionOptions mine = options("job", "a", 1);
  {
    ASSERT_OK_AND_ASSIGN(const auto session, open(mine, model));
    EXPECT_FAILS(session->begin_average(1, 1), StatusCode::kInvalidArgument,
                 "without SessionOptions::bucket_bytes");
    ASSERT_OK(session->finish());
  }
  mine = options("another", "a", 1);
  mine.bucket_bytes = 1;
  {
    ASSERT_OK_AND_ASSIGN(const auto session, open(mine, model));
    EXPECT_FAILS(session->begin_average(3, 1), StatusCode::kInvalidArgument, "there are 2");
    ASSERT_OK(session->begin_average(1, 5));
    EXPECT_FAILS(session->begin_average(2, 6), StatusCode::kInvalidArgument, "begun with 5");
    EXPECT_FAILS(session->end_step(6), StatusCode::kInvalidArgument, "was called with 5");
    ASSERT_OK_AND_ASSIGN(const StepResult result, session->end_step(5));
    EXPECT_EQ(result, StepResult::kContinue);
    ASSERT_OK(session->finish());
    EXPECT_EQ(session->begin_average(1, 5).code(), StatusCode::kCancelled);
  }
  GradientNoiseOptions of_gradients;
  of_gradients.gradients = model.gradients();
  ASSERT_OK_AND_ASSIGN(const auto noise, GradientNoise::create(of_gradients));
  mine.participants = {noise.get()};
  EXPECT_FAILS(open(mine, model), StatusCode::kInvalidArgument,
               "bucket_bytes is set, and a participant reads whole gradients");
  mine.participants = {};
  mine.micro_batch_shares = [] { return std::vector<uint64_t>{1}; };
  EXPECT_FAILS(open(mine, model), StatusCode::kInvalidArgument,
               "micro_batch_shares and bucket_bytes");
}

}  // namespace
}  // namespace ffdl
