// Tests members that were away for a moment: the job goes on with the newest state that a living
// process has in its memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data/ledger/audit.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/session.h"
#include "membership/keys.h"
#include "support/cut_store.h"
#include "support/small_model.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::CutStore;
using ffdl::testing::SmallModel;

constexpr data::DataSet kData = {.samples = 200, .partition_samples = 10};

// Ends the training of all members after the same step: the one after a member wanted that.
class Ending final : public StepParticipant {
 public:
  explicit Ending(const std::atomic<bool>& is_wanted) : is_wanted_(is_wanted) {}
  bool has_ended() const { return has_ended_; }

  size_t record_bytes() const override { return 1; }
  void write_record(std::span<std::byte> record) override {
    record.front() = std::byte{is_wanted_.load()};
  }
  void applied(uint64_t /*step*/, const StepRecords& records) override {
    for (int rank = 0; rank < records.size(); ++rank) {
      has_ended_ = has_ended_ || records.of(rank).front() != std::byte{0};
    }
  }
  void world_changed(const World& /*world*/) override {}
  void stable(uint64_t /*step*/) override {}
  std::vector<std::byte> save() const override { return {std::byte{has_ended_}}; }
  Status restore(std::span<const std::byte> bytes) override {
    has_ended_ = bytes.front() != std::byte{0};
    return {};
  }

 private:
  const std::atomic<bool>& is_wanted_;
  bool has_ended_ = false;
};

// A job whose members are threads with their own access to one store.
class SessionReturn : public ::testing::Test {
 protected:
  // One member, whose thread makes a step each millisecond.
  struct Member {
    explicit Member(Store& store) : way_in(store) {}

    CutStore way_in;
    MembershipOptions membership{};
    SessionOptions::OnFence on_fence = SessionOptions::OnFence::kRejoin;
    Duration recovery_timeout = 60s;
    std::atomic<uint64_t> step = 0;
    std::atomic<uint64_t> lineage = 0;
    std::atomic<int> size = 0;
    std::atomic<uint64_t> incarnation = 0;
    std::atomic<bool> dies = false;
    std::atomic<bool> has_begun_anew = false;
    std::atomic<bool> has_failed = false;
    std::mutex mutex;
    std::vector<StepResult> results;
    Status outcome;
    std::thread thread;
  };

  SessionReturn() : store_(open_store("mem://", system_runtime()).value()) {}
  ~SessionReturn() override {
    for (auto& [id, member] : members_) {
      member.dies = true;
      member.way_in.restore();
      if (member.thread.joinable()) member.thread.join();
    }
  }

  Member& start(const std::string& id, const std::function<void(Member&)>& change = {}) {
    Member& member = members_.try_emplace(id, *store_).first->second;
    member.membership.heartbeat = 50ms;
    member.membership.lease = 1s;
    member.membership.gather = 50ms;
    if (change) change(member);
    member.thread = std::thread([this, id, &member] { member.outcome = run(id, member); });
    return member;
  }
  void wait_for(const std::function<bool()>& is_due) { ASSERT_TRUE(comes_true(is_due)); }
  // Waits until both have made a step together.
  void wait_for_both(const Member& a, const Member& b) {
    wait_for([&] { return a.size == 2 && b.size == 2 && a.step > 3 && b.step > 3; });
  }
  // Ends a member as kill -9 does, and reports that as its launcher would.
  void kill(const std::string& id) {
    Member& member = members_.at(id);
    member.dies = true;
    member.thread.join();
    EXPECT_OK(report_death(*store_, "job", {id, member.incarnation}));
  }
  // Lets all members end, and checks what they committed.
  void finish() {
    is_end_wanted_ = true;
    for (auto& [id, member] : members_) {
      if (member.thread.joinable()) member.thread.join();
      SCOPED_TRACE(id);
      if (!member.dies) EXPECT_OK(member.outcome);
    }
    data::Audit audit(kData, 0);
    for (const CommittedStep& committed : commits_) audit.add(committed, "a member");
    const CommitAudit found = audit.finish({});
    EXPECT_EQ(found.problems, 0U) << ::testing::PrintToString(found.first_problems);
    EXPECT_EQ(found.steps, most_steps());
    EXPECT_EQ(states_.size(), 1U) << "all members end with the same state";
  }

  uint64_t most_steps() const {
    uint64_t most = 0;
    for (const auto& [id, member] : members_) {
      if (!member.dies) most = std::max<uint64_t>(most, member.step);
    }
    return most;
  }

  const std::unique_ptr<Store> store_;
  std::map<std::string, Member> members_;

 private:
  class Model final : public SmallModel {
   public:
    explicit Model(Member& member) : member_(member) {}
    Status begin_anew() override {
      member_.has_begun_anew = true;
      return SmallModel::begin_anew();
    }

   private:
    Member& member_;
  };

  Status run(const std::string& id, Member& member) {
    Model model(member);
    LedgerOptions samples;
    samples.samples = kData.samples;
    samples.partition_samples = kData.partition_samples;
    samples.epochs = 0;
    LedgerMemberOptions told;
    told.on_stable = [this](const CommittedStep& step) {
      const std::lock_guard lock(mutex_);
      commits_.push_back(step);
    };
    FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger(samples, told));
    SessionOptions options;
    options.self = {id, 0, "127.0.0.1"};
    options.membership = member.membership;
    options.on_fence = member.on_fence;
    options.recovery_timeout = member.recovery_timeout;
    Ending ending(is_end_wanted_);
    options.participants = {&ending, ledger->participant()};
    options.verify_state = true;
    FFDL_ASSIGN_OR_RETURN(auto session, Session::open(options, model, member.way_in));
    while (!member.dies) {
      system_runtime().make_event()->wait_until(system_runtime().now() + 1ms);
      model.compute(session->step());
      FFDL_RETURN_IF_ERROR(ledger->take(4).status());
      const auto ended = session->end_step(ledger->taken());
      member.has_failed = !ended.ok();
      FFDL_ASSIGN_OR_RETURN(const StepResult result, ended);
      const std::lock_guard lock(member.mutex);
      member.results.push_back(result);
      member.lineage = session->world().lineage;
      member.size = session->world().size();
      member.incarnation = session->self().incarnation;
      member.step = session->step();
      if (!ending.has_ended()) continue;
      FFDL_RETURN_IF_ERROR(session->finish());
      const std::lock_guard all(mutex_);
      states_.insert(model.weights());
      return {};
    }
    return {};
  }

  std::atomic<bool> is_end_wanted_ = false;
  std::mutex mutex_;
  std::vector<CommittedStep> commits_;
  std::set<std::vector<float>> states_;
};

// "a" does not reach the store for longer than its lease. "b" goes on alone and dies. "a" has the
// newest state that is left, although it is no state holder any more.
TEST_F(SessionReturn, AfterAStallAndADeathTheJobGoesOnWithTheStateOfTheStalledMember) {
  Member& a = start("a");
  Member& b = start("b");
  wait_for_both(a, b);
  a.way_in.cut(CutStore::Way::kHangs);
  wait_for([&] { return b.size == 1; });
  const uint64_t alone_from = b.step;
  wait_for([&] { return b.step > alone_from + 5; });
  const uint64_t left_at = a.step;
  kill("b");
  EXPECT_GT(b.step, left_at);
  a.way_in.restore();
  wait_for([&] { return a.lineage == 2 && a.step > left_at; });
  EXPECT_FALSE(a.has_begun_anew);
  EXPECT_EQ(a.incarnation, 1U);
  ASSERT_OK_AND_ASSIGN(const JobStatus job, read_job(*store_, "job"));
  EXPECT_EQ(job.lineage_holder, "a");
  EXPECT_EQ(job.lineage_base.lineage, 1U);
  EXPECT_GE(job.lineage_base.step, left_at);
  finish();
}

// The same, while a new process under the dead one's id is there first: it waits for "a".
TEST_F(SessionReturn, ANewcomerWaitsForTheMemberThatMayHaveTheState) {
  Member& a = start("a");
  Member& b = start("b");
  wait_for_both(a, b);
  a.way_in.cut(CutStore::Way::kHangs);
  wait_for([&] { return b.size == 1 && b.step > a.step + 5; });
  const uint64_t left_at = a.step;
  kill("b");
  Member& c = start("c");
  wait_for([&] { return store_->get(membership::Keys("job").candidate("c")).ok(); });
  a.way_in.restore();
  wait_for([&] { return a.size == 2 && c.size == 2; });
  EXPECT_FALSE(a.has_begun_anew);
  EXPECT_EQ(c.lineage, 2U);
  ASSERT_OK_AND_ASSIGN(const JobStatus job, read_job(*store_, "job"));
  EXPECT_EQ(job.lineage_holder, "a");
  EXPECT_GE(job.lineage_base.step, left_at);
  finish();
}

// "a" is fenced, and "b" goes on meanwhile. "a" comes back as a new life, and takes the state.
class SessionReturnWays : public SessionReturn,
                          public ::testing::WithParamInterface<CutStore::Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, SessionReturnWays,
                         ::testing::Values(CutStore::Way::kRefuses, CutStore::Way::kHangs));

TEST_P(SessionReturnWays, AFencedMemberComesBackAndTakesTheStateOfTheOthers) {
  const auto is_fenced_soon = [](Member& member) {
    member.membership.fence_after = 3s;
    member.membership.fence_margin = 100ms;
  };
  Member& a = start("a", is_fenced_soon);
  Member& b = start("b", is_fenced_soon);
  wait_for_both(a, b);
  a.way_in.cut(GetParam());
  wait_for([&] { return b.size == 1; });
  // Its fence is 3 s after its last renewal.
  system_runtime().make_event()->wait_until(system_runtime().now() + 4s);
  a.way_in.restore();
  wait_for([&] { return a.incarnation == 2 && a.size == 2; });
  EXPECT_EQ(a.lineage, 1U);
  EXPECT_FALSE(a.has_begun_anew);
  {
    const std::lock_guard lock(a.mutex);
    EXPECT_NE(std::ranges::find(a.results, StepResult::kHealed), a.results.end());
  }
  finish();
}

// The session's end waits for its present call to the store.
TEST_P(SessionReturnWays, AFencedMemberWhoseStoreStaysAwayEnds) {
  Member& a = start("a", [](Member& member) {
    member.membership.fence_after = 2s;
    member.membership.fence_margin = 40ms;
    member.recovery_timeout = 1s;
  });
  wait_for([&] { return a.step > 3; });
  a.way_in.cut(GetParam());
  wait_for([&] { return a.has_failed.load(); });
  a.way_in.restore();
  a.thread.join();
  const bool hangs = GetParam() == CutStore::Way::kHangs;
  EXPECT_FAILS(a.outcome, StatusCode::kTimeout,
               std::string("it could not join again after it was away: the ") +
                   (hangs ? "store has not answered" : "test has cut this member off"));
}

// All members are cut off for longer than their fence. No step is lost that any of them has made.
TEST_F(SessionReturn, IfAllAreFencedTheJobGoesOnWithTheirNewestState) {
  const auto is_fenced_soon = [](Member& member) {
    member.membership.fence_after = 3s;
    member.membership.fence_margin = 100ms;
    member.membership.min_workers = 2;
  };
  Member& a = start("a", is_fenced_soon);
  Member& b = start("b", is_fenced_soon);
  wait_for_both(a, b);
  a.way_in.cut(CutStore::Way::kRefuses);
  b.way_in.cut(CutStore::Way::kRefuses);
  system_runtime().make_event()->wait_until(system_runtime().now() + 4s);
  const uint64_t reached = most_steps();
  a.way_in.restore();
  b.way_in.restore();
  wait_for([&] { return a.incarnation == 2 && b.incarnation == 2 && a.step > reached; });
  EXPECT_FALSE(a.has_begun_anew);
  EXPECT_FALSE(b.has_begun_anew);
  EXPECT_EQ(a.lineage, 2U);
  finish();
}

TEST_F(SessionReturn, AMemberThatShallNotComeBackEnds) {
  Member& a = start("a", [](Member& member) {
    member.membership.fence_after = 3s;
    member.membership.fence_margin = 100ms;
    member.on_fence = SessionOptions::OnFence::kEnd;
  });
  wait_for([&] { return a.step > 3; });
  a.way_in.cut(CutStore::Way::kRefuses);
  a.thread.join();
  EXPECT_FAILS(a.outcome, StatusCode::kCancelled, "did not answer for 3 s");
}

}  // namespace
}  // namespace ffdl
