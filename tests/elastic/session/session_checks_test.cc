#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <thread>

#include "base/protocol_version.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/session.h"
#include "support/other_version_store.h"
#include "support/small_model.h"
#include "support/status_matchers.h"

// Tests the refusals of a session's members before a step counts.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::patient;
using ffdl::testing::SmallModel;

class SessionChecks : public ::testing::Test {
 protected:
  SessionChecks() : store_(open_store("mem://", system_runtime()).value()) {}

  static std::unique_ptr<SampleLedger> make_ledger() {
    LedgerOptions options;
    options.samples = 200;
    options.partition_samples = 10;
    return make_session_ledger(options).value();
  }

  std::unique_ptr<Store> store_;
};

// The outcomes of two members, one of which gives NaN in the second of three steps.
struct NonFiniteOutcome {
  Status status{};
  uint64_t steps = 0;
  uint64_t skipped = 0;
  std::vector<float> weights{};
  std::vector<float> before{};  // when the second step began
  uint64_t committed = 0;
};

class NonFiniteSessions : public SessionChecks {
 protected:
  NonFiniteOutcome train(const std::string& id, NonFinite non_finite, float bad) {
    NonFiniteOutcome outcome;
    SmallModel model;
    const auto ledger = make_ledger();
    SessionOptions options;
    options.self.id = id;
    options.membership = patient(2);
    options.participants = {ledger->participant()};
    options.non_finite = non_finite;
    auto session = Session::open(options, model, *store_);
    outcome.status = session.status();
    for (int i = 0; i < 3 && outcome.status.ok(); ++i) {
      model.compute((*session)->step());
      static_cast<float*>(model.gradients()[1].data)[7] = id == "b" && i == 1 ? bad : 0;
      EXPECT_OK(ledger->take(4));
      if (i == 1) outcome.before = model.weights();
      const auto result = (*session)->end_step(ledger->taken());
      outcome.status = result.status();
      outcome.weights = i == 2 ? outcome.weights : model.weights();
    }
    if (session.ok()) {
      outcome.steps = (*session)->step();
      outcome.skipped = (*session)->stats().skipped_steps;
      outcome.committed = ledger->committed();
      if (outcome.status.ok()) outcome.status = (*session)->finish();
    }
    return outcome;
  }
  std::vector<NonFiniteOutcome> both(NonFinite non_finite, float bad) {
    store_ = open_store("mem://", system_runtime()).value();
    auto first = std::async(std::launch::async, [&] { return train("a", non_finite, bad); });
    auto second = std::async(std::launch::async, [&] { return train("b", non_finite, bad); });
    return {first.get(), second.get()};
  }
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
};

TEST_F(NonFiniteSessions, AreRefusedByAllAlikeBeforeAnythingIsTouched) {
  for (const float bad : {kNan, -std::numeric_limits<float>::infinity()}) {
    const auto outcomes = both(SessionOptions().non_finite, bad);
    for (const NonFiniteOutcome& one : outcomes) {
      EXPECT_FAILS(one.status, StatusCode::kInvalidArgument,
                   "end step 2 of job 'job': element 7 of gradient 1 is ");
      EXPECT_FAILS(one.status, StatusCode::kInvalidArgument, "(non_finite=skip drops and counts");
      EXPECT_EQ(one.steps, 1U);
      EXPECT_EQ(one.weights, one.before);
      EXPECT_EQ(one.committed, outcomes[0].committed);
      EXPECT_LE(one.committed, 8U) << "of the first step alone";
    }
    EXPECT_EQ(outcomes[0].status.message(), outcomes[1].status.message());
  }
}

TEST_F(NonFiniteSessions, AreSkippedAndTheSamplesCount) {
  for (const NonFiniteOutcome& one : both(NonFinite::kSkip, kNan)) {
    EXPECT_OK(one.status);
    EXPECT_EQ(one.steps, 3U);
    EXPECT_EQ(one.skipped, 1U);
    EXPECT_EQ(one.weights, one.before);
    EXPECT_GE(one.committed, 20U);
  }
}

TEST_F(NonFiniteSessions, AreAppliedWhereTheyAreAccepted) {
  for (const NonFiniteOutcome& one : both(NonFinite::kAccept, kNan)) {
    EXPECT_OK(one.status);
    EXPECT_EQ(one.skipped, 0U);
    EXPECT_EQ(std::ranges::count_if(one.weights, [](float w) { return std::isnan(w); }), 1);
  }
}

TEST_F(SessionChecks, AStepHasTheSamplesThatTheLedgerGave) {
  SmallModel model;
  const auto ledger = make_ledger();
  SessionOptions options;
  options.self.id = "a";
  options.membership = patient(1);
  options.participants = {ledger->participant()};
  options.bucket_bytes = 1000;
  ASSERT_OK_AND_ASSIGN(const auto session, Session::open(options, model, *store_));
  model.compute(0);
  ASSERT_OK(ledger->take(4));
  EXPECT_FAILS(session->end_step(5), StatusCode::kInvalidArgument,
               "end a step of 5 samples: the ledger gave this member 4 for the step");
  EXPECT_FAILS(session->begin_average(1, 3), StatusCode::kInvalidArgument,
               "average gradients over 3 samples: the ledger gave this member 4 for the step");
  ASSERT_OK(session->end_step());
  EXPECT_EQ(session->step(), 1U);
  EXPECT_EQ(ledger->committed(), 4U);
  ASSERT_OK(ledger->take(4));
  ASSERT_OK(session->end_step(4));
  ASSERT_OK(ledger->take(2));  // the samples are damaged
  const std::vector<float> before = model.weights();
  ASSERT_OK(session->end_step(0));
  EXPECT_EQ(ledger->committed(), 10U);
  EXPECT_EQ(model.weights(), before);
  EXPECT_EQ(session->step(), 3U);
  ASSERT_OK(session->finish());
  EXPECT_FAILS(session->end_step(), StatusCode::kCancelled, "has left");
}

TEST_F(SessionChecks, WithoutALedgerAStepIsGivenItsSamples) {
  SmallModel model;
  SessionOptions options;
  options.self.id = "a";
  options.membership = patient(1);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::open(options, model, *store_));
  model.compute(0);
  EXPECT_FAILS(session->end_step(), StatusCode::kInvalidArgument,
               "no ledger is among the participants; give end_step() the number of samples");
  ASSERT_OK(session->end_step(7));
  EXPECT_EQ(session->step(), 1U);
  ASSERT_OK(session->finish());
}

TEST_F(SessionChecks, MembersOfOneJobSayTheSameOfNonFiniteGradients) {
  SmallModel model;
  SessionOptions options;
  options.self.id = "a";
  options.membership = patient(1);
  ASSERT_OK_AND_ASSIGN(auto session, Session::open(options, model, *store_));
  std::atomic<bool> is_done = false;
  std::thread other([&] {
    SmallModel its;
    SessionOptions others = options;
    others.self.id = "b";
    others.non_finite = NonFinite::kSkip;
    EXPECT_FAILS(Session::open(others, its, *store_), StatusCode::kInvalidArgument,
                 "its non_finite is another value");
    is_done = true;
  });
  while (!is_done) {
    model.compute(session->step());
    ASSERT_OK(session->end_step(1));
  }
  other.join();
}

// Sends a header of another step or world in place of the member's own.
class Liar final : public Communicator {
 public:
  using Change = std::function<void(std::span<uint64_t>)>;
  Liar(std::unique_ptr<Communicator> of, Change change)
      : of_(std::move(of)), change_(std::move(change)) {}

  const World& world() const override { return of_->world(); }
  Backend backend() const override { return of_->backend(); }
  Status run(const Operation& operation, Time deadline) override {
    // The reports at the begin of a world are the first gather.
    if (operation.kind == Collective::kAllGather && ++gathers_ > 1) {
      change_({static_cast<uint64_t*>(operation.in.front().data),
               operation.in.front().count / sizeof(uint64_t)});
    }
    return of_->run(operation, deadline);
  }
  void abort(Status why) override { of_->abort(std::move(why)); }
  Status register_memory(const std::shared_ptr<SharedMemory>& memory) override {
    return of_->register_memory(memory);
  }

 private:
  const std::unique_ptr<Communicator> of_;
  const Change change_;
  int gathers_ = 0;
};

TEST_F(SessionChecks, AMemberAtAnotherStepIsNamedByAll) {
  const std::vector<std::pair<Liar::Change, std::string>> lies = {
      {[](auto words) { words[0] += 1; }, "('b') is at step 2 of generation "},
      {[](auto words) { words[7] += 5; }, "('b') is at step 1 of generation "},
      {[](auto words) { words[8] += 8; }, " with 80 bytes; report it"}};
  for (const auto& [change, text] : lies) {
    const auto store = open_store("mem://", system_runtime()).value();
    const auto train = [&, lie = change](const std::string& id) {
      SmallModel model;
      SessionOptions options;
      options.self.id = id;
      options.membership = patient(2);
      if (id == "b") {
        options.connect = [&](const World& world, Time deadline,
                              const auto& watch) -> Result<std::unique_ptr<Communicator>> {
          CommunicatorOptions one;
          one.interrupt_check = watch.interrupt_check;
          FFDL_ASSIGN_OR_RETURN(auto made, connect_communicator(world, *store, deadline, one));
          return std::unique_ptr<Communicator>(std::make_unique<Liar>(std::move(made), lie));
        };
      }
      auto session = Session::open(options, model, *store);
      if (!session.ok()) return session.status();
      model.compute(0);
      const std::vector<float> before = model.weights();
      const Status outcome = (*session)->end_step(1).status();
      EXPECT_EQ(model.weights(), before);
      return outcome;
    };
    auto first = std::async(std::launch::async, [&] { return train("a"); });
    const Status second = train("b");
    for (const Status& outcome : {first.get(), second}) {
      EXPECT_FAILS(outcome, StatusCode::kInternal, "end step 1 of job 'job' in generation ");
      EXPECT_FAILS(outcome, StatusCode::kInternal, text);
    }
  }
}

// Two members train on in their world while a process of another version tries to join.
TEST_F(SessionChecks, AnotherVersionIsRefusedAloneAndTheWorldStays) {
  std::atomic<bool> is_refused = false;
  std::atomic<uint64_t> end = ~uint64_t{0};
  std::promise<void> trains;
  const auto train = [&](const std::string& id) {
    SmallModel model;
    SessionOptions options;
    options.self.id = id;
    options.membership = patient(2);
    ASSERT_OK_AND_ASSIGN(const auto session, Session::open(options, model, *store_));
    uint64_t generation = 0;
    while (session->step() < end) {
      model.compute(session->step());
      ASSERT_OK(session->end_step(1));
      if (id == "b") continue;
      if (generation == 0) {
        generation = session->world().generation;
        trains.set_value();
      }
      if (is_refused && end == ~uint64_t{0}) end = session->step() + 10;
    }
    if (id == "a") {
      EXPECT_EQ(session->world().generation, generation);
    }
    EXPECT_OK(session->finish());
  };
  std::thread a(train, "a");
  std::thread b(train, "b");
  trains.get_future().wait();
  testing::OtherVersionStore other(*store_);
  SmallModel model;
  SessionOptions options;
  options.self.id = "c";
  options.membership = patient(1);
  EXPECT_FAILS(Session::open(options, model, other), StatusCode::kInvalidArgument,
               "use version " + std::to_string(base::kProtocolVersion + 1) +
                   " of the protocol, this member " + std::to_string(base::kProtocolVersion));
  EXPECT_FAILS(store_->get("ffdl/job/who/members/c"), StatusCode::kNotFound, "");
  is_refused = true;
  a.join();
  b.join();
}

}  // namespace
}  // namespace ffdl
