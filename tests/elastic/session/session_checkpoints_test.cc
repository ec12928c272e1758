#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "elastic/state/hash.h"
#include "elastic/state/state_copy.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/log.h"
#include "ffdl/session.h"
#include "support/forwarding_store.h"
#include "support/memory_files.h"
#include "support/small_model.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

// Tests jobs that begin again from checkpoints. Members are threads of this process.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using ffdl::testing::MemoryFiles;

// A model that cannot be reset to its beginning. With checkpoints it need not be.
class OneWayModel final : public testing::SmallModel {
 public:
  Status begin_anew() override { return Trainable::begin_anew(); }
};

constexpr uint64_t kSamples = 210;
constexpr uint64_t kPartition = 10;
constexpr uint64_t kEpochs = 3;
constexpr uint64_t kBatch = 10;

// The commits that the ledgers of one run report, and the state after each step.
struct Told {
  std::atomic<bool> is_killed = false;
  std::atomic<uint64_t> end = ~uint64_t{0};  // all finish after this step
  bool may_go_back = false;                  // other members repeat steps
  std::mutex mutex;
  std::map<uint64_t, CommittedStep> steps;
  std::map<uint64_t, uint64_t> states;
  std::map<uint64_t, uint64_t> states_again;
};

class SessionCheckpoints : public ::testing::Test {
 protected:
  SessionCheckpoints() {
    options_.folder = "/f";
    options_.files = &files_;
    options_.every_steps = 5;
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~SessionCheckpoints() override { set_log_sink(nullptr); }

  // Runs after each step. False: all members die at once, as by a kill.
  using Watch = std::function<bool(Session&)>;

  // Holds a member after each step with a checkpoint until that one is published, so that no job
  // ends earlier. Allows at most `count` of them.
  static Watch until_published(uint64_t count) {
    return [count](Session& session) {
      const uint64_t due = (session.step() - 1) / 5;
      if (session.step() % 5 == 1) {
        EXPECT_TRUE(comes_true([&] { return session.stats().checkpoints >= due; }));
      }
      return due < count;
    };
  }

  Status train(Store& store, const std::string& id, int members, Told& told, const Watch& watch) {
    OneWayModel model;
    LedgerOptions samples;
    samples.samples = kSamples;
    samples.partition_samples = kPartition;
    samples.epochs = epochs_;
    samples.order = SampleOrder::kGlobal;  // the same sums for any number of members
    samples.batch_samples = kBatch;
    LedgerMemberOptions member;
    member.on_stable = [&told](const CommittedStep& step) {
      const std::lock_guard lock(told.mutex);
      if (told.may_go_back) told.steps.insert_or_assign(step.step, step);
      EXPECT_EQ(told.steps.emplace(step.step, step).first->second, step);
    };
    FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger(samples, member));
    SessionOptions options;
    options.self.id = id;
    options.membership.min_workers = members;
    options.membership.lease = 15s;
    options.membership.gather = 50ms;
    options.membership.recovery = recovery_;
    if (recovery_ == Recovery::kConsistent) {  // all begin, and one less continues
      options.membership.min_workers = std::max(members - 1, 1);
      options.membership.max_workers = members;
      options.membership.gather = 1min;
    }
    options.participants = {ledger->participant()};
    options.verify_state = true;
    options.checkpoints = options_;
    options.communicator.interrupt_check = [&told] {
      return told.is_killed ? Status(StatusCode::kCancelled, "killed") : Status();
    };
    FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, store));
    const Status outcome = train_on(*session, *ledger, model, told, watch);
    if (!outcome.ok()) FFDL_RETURN_IF_ERROR(report_death(store, "job", session->self()));
    return outcome;
  }

  static Status train_on(Session& session, SampleLedger& ledger, OneWayModel& model, Told& told,
                         const Watch& watch) {
    const auto note = [&] {
      const std::lock_guard lock(told.mutex);
      const uint64_t hash = elastic::hash_of(model.state(), {});
      const bool has_gone_back = told.may_go_back && session.world().lineage > 1;
      auto& states = has_gone_back ? told.states_again : told.states;
      EXPECT_EQ(states.emplace(session.step(), hash).first->second, hash);
    };
    note();
    while (!ledger.is_done() && session.step() < told.end) {
      FFDL_RETURN_IF_ERROR(ledger.take().status());
      model.compute(session.step());
      FFDL_RETURN_IF_ERROR(session.end_step(ledger.taken()).status());
      note();
      if (watch && !watch(session)) {
        told.is_killed = !told.may_go_back;
        return Status(StatusCode::kCancelled, "killed");
      }
    }
    return session.finish();
  }

  // Runs all members to their ends.
  std::vector<Status> run(Store& store, int members, Told& told, const Watch& watch = {}) {
    std::vector<Status> outcomes(static_cast<size_t>(members));
    std::vector<std::thread> threads;
    for (int i = 0; i < members; ++i) {
      threads.emplace_back([&, i] {
        outcomes[static_cast<size_t>(i)] =
            train(store, std::string(1, static_cast<char>('a' + i)), members, told, watch);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }
  std::unique_ptr<Store> new_store() { return open_store("mem://", system_runtime()).value(); }

  // Checks that two runs are one training. The second one began from a checkpoint of the first.
  static void expect_one_training(const Told& before, const Told& after) {
    const uint64_t begin = after.states.begin()->first;
    EXPECT_GT(begin, 0U);
    EXPECT_EQ(begin % 5, 0U) << "a step with a checkpoint";
    ASSERT_TRUE(before.states.contains(begin));
    EXPECT_EQ(before.states.at(begin), after.states.at(begin)) << "the same bits";
    std::map<uint64_t, CommittedStep> steps(before.steps.begin(), before.steps.upper_bound(begin));
    steps.insert(after.steps.upper_bound(begin), after.steps.end());
    expect_each_sample_once(steps);
  }
  static void expect_each_sample_once(const std::map<uint64_t, CommittedStep>& steps) {
    std::map<std::pair<uint32_t, uint64_t>, uint64_t> ranges;
    uint64_t samples = 0;
    for (const auto& [number, step] : steps) {
      for (const auto& part : step.parts) {
        const auto [range, is_new] =
            ranges.emplace(std::pair(part.range.partition, part.range.begin), part.range.end);
        EXPECT_TRUE(is_new) << "samples twice";
        samples += part.range.end - part.range.begin;
      }
    }
    EXPECT_EQ(samples, kEpochs * kSamples);
    std::pair<uint32_t, uint64_t> next = {0, 0};
    for (const auto& [range, end] : ranges) {
      if (range.first != next.first) next = {range.first, 0};
      EXPECT_EQ(range.second, next.second) << "a gap in partition " << range.first;
      next.second = end;
    }
  }

  static constexpr uint64_t kSteps = kEpochs * kSamples / kBatch;

  MemoryFiles files_;
  CheckpointOptions options_;
  uint64_t epochs_ = kEpochs;
  Recovery recovery_ = Recovery::kForward;
};

TEST_F(SessionCheckpoints, TheLastOneCountsWhenAllFinish) {
  const auto store = new_store();
  Told told;
  options_.every_steps = kSteps;
  for (const Status& outcome : run(*store, 3, told)) EXPECT_OK(outcome);
  OneWayModel model;
  ASSERT_OK_AND_ASSIGN(const Checkpoint loaded, load_checkpoint(options_, model.state()));
  EXPECT_EQ(loaded.step, kSteps);
  EXPECT_EQ(elastic::hash_of(model.state(), {}), told.states.at(kSteps));
}

// Sets at_end alone, so that no checkpoint was due earlier.
TEST_F(SessionCheckpoints, OneThatComesAfterTheEndHasItsState) {
  const auto store = new_store();
  Told told;
  options_.every_steps = 0;
  for (const Status& outcome : run(*store, 2, told)) EXPECT_OK(outcome);
  Told late;
  EXPECT_OK(train(*store, "c", 1, late, [](Session&) {
    ADD_FAILURE() << "it trains";
    return true;
  }));
  ASSERT_EQ(late.states.size(), 1U);
  EXPECT_EQ(late.states.begin()->first, kSteps);
  EXPECT_EQ(late.states.at(kSteps), told.states.at(kSteps));
  for (const auto& [number, step] : late.steps) EXPECT_EQ(told.steps.at(number), step);
}

TEST_F(SessionCheckpoints, WithoutOneOfTheEndTheStateMayBeNowhere) {
  const auto store = new_store();
  Told told;
  options_.at_end = false;
  for (const Status& outcome : run(*store, 2, told)) EXPECT_OK(outcome);
  Told late;
  EXPECT_FAILS(train(*store, "c", 1, late, {}), StatusCode::kNotFound, "is done at step");
}

// A failure within finish() ends the life of the member.
TEST_F(SessionCheckpoints, AFinishThatFailsLeaves) {
  const auto store = new_store();
  Told told;
  options_.every_steps = 0;
  options_.note = [&] {  // asked for the last checkpoint
    told.is_killed = true;
    return std::string();
  };
  OneWayModel model;
  SessionOptions options;
  options.self.id = "a";
  options.checkpoints = options_;
  options.membership.lease = 15s;
  options.communicator.interrupt_check = [&] {
    return told.is_killed ? Status(StatusCode::kCancelled, "killed") : Status();
  };
  ASSERT_OK_AND_ASSIGN(const auto session, Session::open(options, model, *store));
  ASSERT_OK(session->end_step(1));
  EXPECT_FAILS(session->finish(), StatusCode::kCancelled, "killed");
  EXPECT_FAILS(session->life_status(), StatusCode::kCancelled, "killed");
  EXPECT_FALSE(session->is_finished());
}

// Begins a new job with a store of its own, with different numbers of members.
TEST_F(SessionCheckpoints, ANewJobGoesOnWithAnyNumberOfMembers) {
  options_.resume = true;  // the first one finds nothing
  for (const int before : {1, 3}) {
    for (const int after : {1, 2, 4}) {
      SCOPED_TRACE(std::to_string(before) + " to " + std::to_string(after));
      files_.clear();
      Told first;
      Told second;
      const auto store = new_store();
      for (const Status& outcome : run(*store, before, first, until_published(3))) {
        EXPECT_FALSE(outcome.ok());
      }
      EXPECT_EQ(first.states.begin()->first, 0U);
      const auto other = new_store();
      for (const Status& outcome : run(*other, after, second)) EXPECT_OK(outcome);
      expect_one_training(first, second);
    }
  }
}

// A state that no session wrote has no samples: the ledger begins with its first ones.
TEST_F(SessionCheckpoints, AJobBeginsWithWhatSaveCheckpointWrote) {
  OneWayModel model;
  model.compute(7);
  ASSERT_OK(save_checkpoint(options_, model.state(), 7).status());
  const uint64_t saved = elastic::hash_of(model.state(), {});
  options_.resume = true;
  Told told;
  const auto store = new_store();
  for (const Status& outcome : run(*store, 2, told)) EXPECT_OK(outcome);
  EXPECT_EQ(told.states.begin()->first, 7U);
  EXPECT_EQ(told.states.begin()->second, saved);
  EXPECT_EQ(told.states.rbegin()->first, 7 + kSteps);
  expect_each_sample_once(told.steps);
}

// All members of a job die. Others with the same store use the checkpoint of its record.
TEST_F(SessionCheckpoints, AJobThatLostAllItsMembersBeginsWithItsOwn) {
  const auto store = new_store();
  Told first;
  Told second;
  for (const Status& outcome : run(*store, 2, first, until_published(2))) {
    EXPECT_FALSE(outcome.ok());
  }
  std::atomic<uint64_t> lineage = 0;
  for (const Status& outcome : run(*store, 3, second, [&](Session& session) {
         lineage = session.world().lineage;
         return true;
       })) {
    EXPECT_OK(outcome);
  }
  EXPECT_EQ(lineage, 2U);
  expect_one_training(first, second);
}

// One of three members dies. The two survivors go back to the checkpoint, with model and samples.
// The steps after it are made again.
TEST_F(SessionCheckpoints, WithConsistentRecoveryADeathTakesAllBack) {
  recovery_ = Recovery::kConsistent;
  const auto store = new_store();
  Told told;
  told.may_go_back = true;
  std::mutex mutex;
  std::map<std::string, std::vector<uint64_t>> steps;  // later lineages, by member
  const Watch published = until_published(2);
  const auto outcomes = run(*store, 3, told, [&](Session& session) {
    if (session.world().lineage == 1) return published(session) || session.self().id != "b";
    const std::lock_guard lock(mutex);
    steps[session.self().id].push_back(session.step());
    return true;
  });
  EXPECT_OK(outcomes[0]);
  EXPECT_EQ(outcomes[1].code(), StatusCode::kCancelled);
  EXPECT_OK(outcomes[2]);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps["a"], steps["c"]);
  EXPECT_EQ(steps["a"].front(), 10U) << "the second checkpoint, and not what was done after it";
  EXPECT_EQ(steps["a"].back(), kSteps);
  EXPECT_EQ(told.states_again.at(10), told.states.at(10)) << "the same bits";
  expect_each_sample_once(told.steps);
}

TEST_F(SessionCheckpoints, WithConsistentRecoveryThereIsAFolder) {
  recovery_ = Recovery::kConsistent;
  options_.folder = "";
  Told told;
  const auto store = new_store();
  const std::vector<Status> outcomes = run(*store, 1, told);
  EXPECT_FAILS(outcomes[0], StatusCode::kInvalidArgument,
               "needs checkpoints, but no folder is set");
}

TEST_F(SessionCheckpoints, WithoutAFolderItSaysWhatIsMissing) {
  const auto store = new_store();
  Told told;
  run(*store, 1, told, until_published(1));
  options_.folder = "";
  Told second;
  const std::vector<Status> outcomes = run(*store, 1, second);
  EXPECT_FAILS(outcomes[0], StatusCode::kInvalidArgument,
               "this session has no folder of checkpoints");
}

TEST_F(SessionCheckpoints, ADamagedOneIsNotLoaded) {
  const auto store = new_store();
  Told told;
  run(*store, 2, told, until_published(2));
  options_.resume = true;
  OneWayModel model;
  ASSERT_OK_AND_ASSIGN(const Checkpoint newest, load_checkpoint(options_, model.state()));
  for (const std::string& path : files_.paths()) {
    if (path.starts_with(newest.folder + "/shard-00000")) files_.bytes_of(path).back() ^= 1;
  }
  for (const bool is_new_job : {false, true}) {
    SCOPED_TRACE(is_new_job);
    options_.skip_damaged = false;
    const auto other = new_store();
    Store& again = is_new_job ? *other : *store;
    Told second;
    const std::vector<Status> outcomes = run(again, 1, second);
    EXPECT_FAILS(
        outcomes[0], StatusCode::kCorrupt,
        "read checkpoint file '" + newest.folder + "/shard-00000-of-00002.safetensors': byte ");
  }
  options_.skip_damaged = true;
  const auto other = new_store();
  Told second;
  for (const Status& outcome : run(*other, 2, second)) EXPECT_OK(outcome);
  EXPECT_LT(second.states.begin()->first, newest.step);
  expect_one_training(told, second);
}

// Files that notice when a shard is opened.
class NoticedFiles final : public elastic::FileSystem {
 public:
  NoticedFiles(elastic::FileSystem& inner, std::function<void()> notice)
      : inner_(inner), notice_(std::move(notice)) {}

  Result<std::unique_ptr<elastic::StoredFile>> open(const std::string& path) override {
    if (path.find("/shard-") != path.npos) notice_();
    return inner_.open(path);
  }
  Result<std::unique_ptr<elastic::OutputFile>> create(const std::string& path) override {
    return inner_.create(path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    return inner_.rename(from, to);
  }
  Status sync_folder(const std::string& path) override { return inner_.sync_folder(path); }
  Status make_folder(const std::string& path) override { return inner_.make_folder(path); }
  Status remove_file(const std::string& path) override { return inner_.remove_file(path); }
  Status remove_folder(const std::string& path) override { return inner_.remove_folder(path); }
  bool exists(const std::string& path) override { return inner_.exists(path); }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return inner_.list(path);
  }

 private:
  elastic::FileSystem& inner_;
  const std::function<void()> notice_;
};

// A store that does not answer one thread while `is_silent` returns true.
class SilentStore final : public testing::ForwardingStore {
 public:
  SilentStore(Store& inner, std::function<bool()> is_silent)
      : ForwardingStore(inner), is_silent_(std::move(is_silent)) {}

  Result<Entry> get(std::string_view key) override {
    if (is_silent()) return Status(StatusCode::kUnavailable, "silent");
    return inner_.get(key);
  }
  Result<std::vector<Entry>> list(std::string_view prefix) override {
    if (is_silent()) return Status(StatusCode::kUnavailable, "silent");
    return inner_.list(prefix);
  }

 private:
  bool is_silent() const { return std::this_thread::get_id() == thread_ && is_silent_(); }

  const std::function<bool()> is_silent_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

// Other members may have removed a checkpoint that cannot be read; only the store knows. An
// interrupted member does not wait for a silent store.
TEST_F(SessionCheckpoints, WhoIsInterruptedDoesNotWaitToHearWhetherItIsLate) {
  const auto inner = new_store();
  Told told;
  run(*inner, 1, told, until_published(1));
  for (const std::string& path : files_.paths()) {
    if (path.find("/shard-") != path.npos) files_.bytes_of(path).back() ^= 1;
  }
  std::atomic<bool> is_opened = false;
  NoticedFiles files(files_, [&] { is_opened = true; });
  options_.files = &files;
  options_.resume = true;
  Told second;
  int asked = 0;
  SilentStore store(*inner,
                    [&] {  // until the interrupt: a later answer would be that it is not late
                      if (!is_opened || second.is_killed) return false;
                      second.is_killed = ++asked == 3;
                      return true;
                    });
  EXPECT_FAILS(train(store, "a", 1, second, {}), StatusCode::kCancelled, "killed");
  EXPECT_EQ(asked, 3);
}

TEST_F(SessionCheckpoints, TrainingGoesOnWhileTheDiskIsFull) {
  const auto store = new_store();
  Told told;
  epochs_ = 0;
  std::atomic<uint64_t> room_at = 0;  // the step at which there is room again
  files_.fail_from(40, StatusCode::kExhausted);
  for (const Status& outcome : run(*store, 2, told, [&](Session& session) {
         if (session.self().id != "a" || told.end < ~uint64_t{0}) return true;
         const Status status = session.checkpoint_status();
         if (room_at == 0 && status.code() == StatusCode::kExhausted) {
           files_.work();
           room_at = session.step();
         }
         if (room_at > 0 && status.ok()) told.end = session.step() + 2;
         return true;
       })) {
    EXPECT_OK(outcome);
  }
  OneWayModel model;
  ASSERT_OK_AND_ASSIGN(const Checkpoint loaded, load_checkpoint(options_, model.state()));
  // Equal if the failure was told in the step of the next checkpoint.
  EXPECT_GE(loaded.step, room_at);
  EXPECT_EQ(elastic::hash_of(model.state(), {}), told.states.at(loaded.step));
}

}  // namespace
}  // namespace ffdl
