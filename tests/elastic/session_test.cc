#include "ffdl/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "support/small_model.h"
#include "support/status_matchers.h"

// Members are threads of this process, with a store and shared memory as processes have them.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::Scribe;
using ffdl::testing::SmallModel;

// Leases that a busy machine keeps alive.
MembershipOptions patient(int min_workers) {
  MembershipOptions options;
  options.min_workers = min_workers;
  options.heartbeat = 50ms;
  options.lease = 3s;
  options.gather = 50ms;
  return options;
}

// What a member's weights were after each step, the same at all of them.
class History {
 public:
  void note(uint64_t step, const std::vector<float>& weights) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = weights_.emplace(step, weights);
    if (is_new) return;
    EXPECT_EQ(known->second, weights) << "two states of step " << step;
  }
  std::vector<float> at(uint64_t step) {
    const std::lock_guard lock(mutex_);
    return weights_.at(step);
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::vector<float>> weights_;
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : store_(open_store("mem://", system_runtime()).value()) {}

  // What one member does; it may look at the session after each step, and ends by false.
  struct Worker {
    std::string id;
    int min_workers = 1;
    size_t size = 1001;
    uint64_t samples = 4;
    std::function<bool(Session&, StepResult)> after_step = [](Session&, StepResult) {
      return true;
    };
  };

  std::thread start(const Worker& worker) {
    return std::thread([this, worker] { outcome_[worker.id] = run(worker); });
  }
  Status run(const Worker& worker) {
    SmallModel model(worker.size);
    Scribe scribe(worker.samples);
    SessionOptions options;
    options.self.id = worker.id;
    options.membership = patient(worker.min_workers);
    options.participants = {&scribe};
    options.verify_state = true;
    FFDL_ASSIGN_OR_RETURN(auto session, Session::open(options, model, *store_));
    while (true) {
      model.compute(session->step());
      FFDL_ASSIGN_OR_RETURN(const StepResult result, session->end_step(worker.samples));
      if (result == StepResult::kLeft) return {};
      if (result != StepResult::kRetryStep) history_.note(session->step(), model.weights());
      EXPECT_LE(scribe.last_applied, session->step());
      EXPECT_LT(scribe.last_stable, std::max<uint64_t>(session->step(), 1));
      sum_of_[worker.id] = scribe.sum();
      if (!worker.after_step(*session, result)) break;
    }
    return session->step() >= end_step_ ? session->finish() : Status();
  }

  const std::unique_ptr<Store> store_;
  History history_;
  uint64_t end_step_ = ~uint64_t{0};  // after which all finish
  std::map<std::string, Status> outcome_ = {{"a", {}}, {"b", {}}, {"c", {}}};
  std::map<std::string, uint64_t> sum_of_ = {{"a", 0}, {"b", 0}, {"c", 0}};
};

TEST_F(SessionTest, OneMemberTrainsAlone) {
  end_step_ = 20;
  const Status outcome = run({.id = "a", .after_step = [](Session& session, StepResult result) {
                                EXPECT_EQ(result, StepResult::kContinue);
                                return session.step() < 20;
                              }});
  EXPECT_OK(outcome);
  EXPECT_NE(history_.at(20), history_.at(19));
}

TEST_F(SessionTest, AllMembersHaveTheSameState) {
  end_step_ = 30;
  std::vector<std::thread> threads;
  for (const char* id : {"a", "b", "c"}) {
    threads.push_back(
        start({.id = id, .min_workers = 3, .after_step = [](Session& session, StepResult) {
                 EXPECT_EQ(session.world().size(), 3);
                 return session.step() < 30;
               }}));
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, outcome] : outcome_) EXPECT_OK(outcome);
  EXPECT_EQ(sum_of_["a"], sum_of_["b"]);
  EXPECT_EQ(sum_of_["a"], sum_of_["c"]);
}

// Members with unequal numbers of samples, and one with none whose gradient must not count.
TEST_F(SessionTest, TheMeanIsOverSamples) {
  std::vector<std::thread> threads;
  const std::map<std::string, uint64_t> samples = {{"a", 1}, {"b", 3}, {"c", 0}};
  for (const auto& [id, count] : samples) {
    threads.emplace_back([this, id = id, count = count] {
      SmallModel model(3, static_cast<float>(count == 0 ? 1e30F : 1));
      std::vector<float> expected;
      SessionOptions options;
      options.self.id = id;
      options.membership = patient(3);
      auto opened = Session::open(options, model, *store_);
      ASSERT_OK(opened);
      const auto gradients = model.gradients();
      for (const Buffer& buffer : gradients) {
        for (uint64_t i = 0; i < buffer.count; ++i) {
          static_cast<float*>(buffer.data)[i] = count == 0 ? 1e30F : static_cast<float>(4 * count);
        }
      }
      ASSERT_OK((*opened)->end_step(count));
      for (const float value : model.gradient()) EXPECT_EQ(value, (1 * 4 + 3 * 12) / 4);
      EXPECT_OK((*opened)->finish());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SessionTest, AStepWithoutSamplesCountsAndChangesNoWeight) {
  SmallModel model;
  SessionOptions options;
  options.self.id = "a";
  ASSERT_OK_AND_ASSIGN(auto session, Session::open(options, model, *store_));
  const std::vector<float> before = model.weights();
  ASSERT_OK(session->end_step(0));
  EXPECT_EQ(session->step(), 1U);
  EXPECT_EQ(model.weights(), before);
}

// A newcomer takes the state while the other trains, and leaves again in order.
TEST_F(SessionTest, AMemberComesAndLeaves) {
  std::atomic<uint64_t> joined_at = 0;
  std::atomic<bool> has_left = false;
  std::atomic<int> changes = 0;
  std::thread newcomer;
  end_step_ = 1;
  std::thread first =
      start({.id = "a", .after_step = [&](Session& session, StepResult result) {
               if (result == StepResult::kWorldChanged) ++changes;
               EXPECT_TRUE(result == StepResult::kContinue || result == StepResult::kWorldChanged);
               return !has_left || session.world().size() > 1;
             }});
  newcomer = start({.id = "b", .after_step = [&](Session& session, StepResult) {
                      if (joined_at == 0) joined_at = session.step();
                      if (session.step() > joined_at + 10) session.ask_to_leave();
                      return true;
                    }});
  newcomer.join();
  has_left = true;
  first.join();
  EXPECT_OK(outcome_["a"]);
  EXPECT_OK(outcome_["b"]);
  EXPECT_LE(changes, 2);
}

// Nobody waits until a newcomer has gradients, too.
TEST_F(SessionTest, ANewcomerIsPartOfItsFirstStepBeforeItComputes) {
  std::atomic<bool> is_over = false;
  end_step_ = 1;
  std::promise<void> trains;
  std::thread first = start({.id = "a", .after_step = [&](Session& session, StepResult) {
                               if (session.step() == 1) {
                                 EXPECT_EQ(session.stats().steps, 1U) << "none of them in open()";
                                 trains.set_value();
                               }
                               return !is_over || session.world().size() > 1;
                             }});
  trains.get_future().wait();
  EXPECT_OK(run({.id = "b", .after_step = [&](Session& session, StepResult) {
                   if (session.stats().healed == 1 && session.stats().retried_steps == 0) {
                     EXPECT_GE(session.stats().steps, 2U) << "one of them in open()";
                   }
                   session.ask_to_leave();
                   return true;
                 }}));
  is_over = true;
  first.join();
  EXPECT_OK(outcome_["a"]);
}

// One whose session is gone is dead for the others; the last one goes on alone.
TEST_F(SessionTest, DeathsEndNobodysSession) {
  end_step_ = 90;
  std::vector<std::thread> threads;
  for (const auto& [id, until] : std::map<std::string, uint64_t>{{"a", 90}, {"b", 60}, {"c", 30}}) {
    threads.push_back(start(
        {.id = id, .min_workers = 1, .after_step = [until = until](Session& session, StepResult) {
           return session.step() < until;
         }}));
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [id, outcome] : outcome_) EXPECT_OK(outcome);
}

TEST_F(SessionTest, AnotherModelIsRefusedAndTheOthersGoOn) {
  end_step_ = 1;
  std::atomic<bool> refused = false;
  std::promise<void> trains;
  std::thread first = start({.id = "a", .after_step = [&](Session& session, StepResult) {
                               if (session.step() == 1) trains.set_value();
                               return !refused || session.world().size() > 1;
                             }});
  trains.get_future().wait();
  const Status outcome = run({.id = "b", .size = 55});
  EXPECT_FAILS(outcome, StatusCode::kInvalidArgument, "join job 'job' as 'b'");
  refused = true;
  first.join();
  EXPECT_OK(outcome_["a"]);
}

TEST_F(SessionTest, WhatCannotBeIsSaid) {
  class Counter : public SmallModel {
   public:
    std::vector<Buffer> gradients() override { return {{&count_, 1, DType::kInt64}}; }

   private:
    int64_t count_ = 0;
  };
  Counter counter;
  SessionOptions options;
  options.self.id = "a";
  EXPECT_FAILS(Session::open(options, counter, *store_), StatusCode::kInvalidArgument,
               "gradients of int64 have no mean");
  SmallModel model;
  options.participants = {nullptr};
  EXPECT_FAILS(Session::open(options, model, *store_), StatusCode::kInvalidArgument,
               "a participant is a null pointer");
  options.participants = {};
  options.operation_timeout = 1s;
  EXPECT_FAILS(Session::open(options, model, *store_), StatusCode::kInvalidArgument,
               "operation_timeout must be longer");
}

}  // namespace
}  // namespace ffdl
