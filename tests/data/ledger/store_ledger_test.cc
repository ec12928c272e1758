#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/ledger/ledger_options.h"
#include "data/numbered_source.h"
#include "ffdl/data/commit_log.h"
#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/store.h"
#include "sim/sim_runtime.h"
#include "store/local/memory_store.h"
#include "support/counting_store.h"
#include "support/forwarding_store.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::NumberedSource;

// Puts the value and reports a lost reply, or does not put it. The next `spared` calls succeed.
class FlakyStore final : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    if (fails != StatusCode::kOk && spared-- > 0) {
      return inner_.compare_and_put(key, expected, value, lease);
    }
    if (fails == StatusCode::kUnavailable) return Status(fails, "it is away");
    auto made = inner_.compare_and_put(key, expected, value, lease);
    if (fails == StatusCode::kTimeout) return Status(fails, "the reply is lost");
    return made;
  }

  StatusCode fails = StatusCode::kOk;
  int spared = 0;
};

// Runs some workers of one job, one at a time, in one store. A dropped worker models a death.
class StoreLedgerTest : public ::testing::Test {
 protected:
  // No lease ends by time, however slow the machine is.
  static StoreLedgerOptions options(const std::string& id) { return {.id = id, .lease = 1h}; }
  static std::string worker_key(const std::string& id) { return "ffdl/job/samples/workers/" + id; }
  std::unique_ptr<SampleLedger> join(const std::string& id) {
    auto joined = make_store_ledger(data_, options(id), *store_);
    EXPECT_OK(joined);
    return std::move(joined).value();
  }
  // Takes samples, commits them and counts them as used.
  void train(SampleLedger& worker, uint64_t count) {
    ASSERT_OK_AND_ASSIGN(const auto ranges, worker.take(count));
    ASSERT_OK(worker.commit());
    for (const SampleRange& range : ranges) {
      for (uint64_t at = range.begin; at < range.end; ++at) ++used_[{range.partition, at}];
    }
  }
  // Ends a worker's lease, as a long standstill does. Then `other` removes the worker.
  void remove(const std::string& id, SampleLedger& other) {
    ASSERT_OK_AND_ASSIGN(const Entry key, store_->get(worker_key(id)));
    ASSERT_OK(store_->end_lease(key.lease));
    ASSERT_OK(other.save());  // reads the store
    train(other, 1);
  }
  // Removes the worker "away" while it has a batch. Returns the number of samples in the batch.
  uint64_t lose_batch(SampleLedger& away, SampleLedger& other) {
    EXPECT_OK(away.take(4));
    const uint64_t lost = away.taken();
    remove("away", other);
    EXPECT_FAILS(away.commit(), StatusCode::kWorldChanged, "drop the batch");
    return lost;
  }
  void train_all(SampleLedger& one, SampleLedger& other) {
    while (!one.is_done()) {
      train(one, 4);
      train(other, 4);
    }
  }
  void expect_each_once(uint64_t epochs) {
    EXPECT_EQ(used_.size(), epochs * data_.samples);
    for (const auto& [at, times] : used_) {
      EXPECT_EQ(times, 1) << at.second << " of partition " << at.first;
    }
  }

  std::unique_ptr<Store> store_ = std::move(open_store("mem://", system_runtime())).value();
  LedgerOptions data_ = {.samples = 100, .partition_samples = 10, .epochs = 2};
  std::map<std::pair<uint32_t, uint64_t>, int> used_{};
};

TEST_F(StoreLedgerTest, OneWorkerNeedsOnePutForEachCommit) {
  testing::CountingStore counting(*store_);
  ASSERT_OK_AND_ASSIGN(const auto worker, make_store_ledger(data_, options("a"), counting));
  while (!worker->is_done()) train(*worker, 5);
  expect_each_once(2);
  EXPECT_EQ(worker->repeated(), 0U);
  EXPECT_EQ(counting.puts, 42) << "40 commits, one to join, one to reserve the first samples";
  EXPECT_EQ(counting.conflicts, 0);
  EXPECT_LE(counting.lists, 3);
  EXPECT_TRUE(worker->take()->empty());
  EXPECT_OK(worker->commit());  // nothing was taken
}

TEST_F(StoreLedgerTest, WorkersOutOfStepShareAnEpochByTheirSpeed) {
  const auto slow = join("slow");
  const auto fast = join("fast");
  int commits = 0;
  while (slow->epoch() == 0) {
    for (int i = 0; i < 3 && fast->epoch() == 0; ++i) {
      const size_t before = used_.size();
      train(*fast, 2);
      if (used_.size() > before) ++commits;
    }
    train(*slow, 2);
  }
  EXPECT_NEAR(commits, 38, 3) << "three of four batches are the fast one's";
  EXPECT_EQ(fast->repeated() + slow->repeated(), 0U);
}

TEST_F(StoreLedgerTest, MoreThanALeaseHoldsIsGivenFromSeveral) {
  StoreLedgerOptions one = options("a");
  one.member.partitions_wanted = 1;
  ASSERT_OK_AND_ASSIGN(const auto worker, make_store_ledger(data_, one, *store_));
  ASSERT_OK_AND_ASSIGN(const auto all, worker->take(35));
  EXPECT_EQ(data::samples_in(all), 35U);
  ASSERT_OK_AND_ASSIGN(const auto indices, worker->sample_indices(all));
  EXPECT_EQ(indices.size(), 35U);
  EXPECT_EQ(data::samples_in(worker->leases()), 50U) << "and one to read ahead";
}

TEST_F(StoreLedgerTest, WhoLeavesGivesBackWithoutACount) {
  const auto leaving = join("leaving");
  const auto other = join("other");
  train(*leaving, 4);
  ASSERT_OK(leaving->leave());
  EXPECT_FAILS(leaving->take(1), StatusCode::kCancelled, "has left");
  while (!other->is_done()) train(*other, 4);
  expect_each_once(2);
  EXPECT_EQ(other->repeated(), 0U);
}

TEST_F(StoreLedgerTest, ANewLifeUnderAnIdEndsTheOneBefore) {
  const auto before = join("a");
  train(*before, 4);
  ASSERT_OK(before->take(4));
  const auto now = join("a");
  EXPECT_FAILS(before->commit(), StatusCode::kCancelled, "another life");
  EXPECT_FAILS(before->take(4), StatusCode::kCancelled, "another life");
  while (!now->is_done()) train(*now, 4);
  expect_each_once(2);
  EXPECT_EQ(now->repeated(), 4U);
}

TEST_F(StoreLedgerTest, ARemovedWorkerDropsItsBatchAndComesBack) {
  const auto away = join("away");
  const auto other = join("other");
  train(*away, 4);
  ASSERT_OK(away->take(4));
  remove("away", *other);
  EXPECT_EQ(other->repeated(), 4U);
  for (int call = 0; call < 2; ++call) {
    EXPECT_FAILS(away->commit(), StatusCode::kWorldChanged, "drop the batch");
    EXPECT_EQ(away->taken(), 0U);
  }
  EXPECT_OK(away->wait(deadline_in(0s)));
  train_all(*away, *other);
  expect_each_once(2);
  EXPECT_EQ(away->repeated(), 4U);
}

TEST_F(StoreLedgerTest, ARemovedWorkerWithoutABatchContinues) {
  const auto away = join("away");
  const auto other = join("other");
  remove("away", *other);
  train(*away, 4);  // and reserves as many
  remove("away", *other);
  train(*away, 8);
  train_all(*away, *other);
  expect_each_once(2);
  EXPECT_EQ(away->repeated(), 4U);
}

TEST_F(StoreLedgerTest, ARemovedWorkerMayLeave) {
  const auto away = join("away");
  const auto other = join("other");
  lose_batch(*away, *other);
  EXPECT_OK(away->leave());
  EXPECT_FAILS(away->take(4), StatusCode::kCancelled, "has left");
  train_all(*other, *other);
  expect_each_once(2);
}

TEST_F(StoreLedgerTest, ARemovedWorkerWhoseIdIsInUseStaysOut) {
  const auto other = join("other");
  for (const bool has_joined : {true, false}) {
    const auto away = join("away");
    lose_batch(*away, *other);
    std::unique_ptr<SampleLedger> next;
    if (has_joined) {
      next = join("away");
    } else {
      ASSERT_OK(store_->put(worker_key("away"), ""));  // as a process that begins to join
    }
    EXPECT_FAILS(away->take(4), StatusCode::kCancelled, "another life");
    EXPECT_FAILS(away->commit(), StatusCode::kCancelled, "another life");
    if (next) train(*next, 4);
  }
  train_all(*other, *other);
  expect_each_once(2);
}

TEST_F(StoreLedgerTest, ARemovedWorkerIsOutAfterARestart) {
  const auto away = join("away");
  const auto other = join("other");
  lose_batch(*away, *other);
  StoreLedgerOptions again = options("other");
  again.lineage = 2;
  ASSERT_OK_AND_ASSIGN(const auto first, make_store_ledger(data_, again, *store_));
  EXPECT_FAILS(away->take(4), StatusCode::kCancelled, "a larger lineage of the job has begun");
}

// The writes of a return are those of the key, the ledger and the key. An announcement follows.
TEST_F(StoreLedgerTest, AFaultInAReturnIsTriedAgain) {
  const auto other = join("other");
  FlakyStore flaky(*store_);
  ASSERT_OK_AND_ASSIGN(const auto away, make_store_ledger(data_, options("away"), flaky));
  uint64_t lost = 0;
  for (const StatusCode fault : {StatusCode::kTimeout, StatusCode::kUnavailable}) {
    for (int spared = 0; spared < 4; ++spared) {
      lost += lose_batch(*away, *other);
      flaky.fails = fault;
      flaky.spared = spared;
      EXPECT_EQ(away->take(4).status().code(), fault) << spared;
      flaky.fails = StatusCode::kOk;
      train(*away, 4);
    }
  }
  train_all(*away, *other);
  expect_each_once(2);
  EXPECT_EQ(away->repeated(), lost);
}

TEST_F(StoreLedgerTest, ACommitWhoseReplyWasLostBeforeTheRemovalHappensOnce) {
  const auto other = join("other");
  FlakyStore flaky(*store_);
  ASSERT_OK_AND_ASSIGN(const auto away, make_store_ledger(data_, options("away"), flaky));
  ASSERT_OK_AND_ASSIGN(const auto ranges, away->take(4));
  flaky.fails = StatusCode::kTimeout;
  EXPECT_EQ(away->commit().code(), StatusCode::kTimeout);
  flaky.fails = StatusCode::kOk;
  for (const SampleRange& range : ranges) {
    for (uint64_t at = range.begin; at < range.end; ++at) ++used_[{range.partition, at}];
  }
  remove("away", *other);
  EXPECT_FAILS(away->commit(), StatusCode::kWorldChanged, "drop the batch");
  train_all(*away, *other);
  expect_each_once(2);
}

TEST_F(StoreLedgerTest, ACommitWhoseReplyWasLostHappensOnce) {
  FlakyStore flaky(*store_);
  ASSERT_OK_AND_ASSIGN(const auto worker, make_store_ledger(data_, options("a"), flaky));
  for (int turn = 0; !worker->is_done(); ++turn) {
    const StatusCode fault = turn % 2 == 0 ? StatusCode::kTimeout : StatusCode::kUnavailable;
    ASSERT_OK_AND_ASSIGN(const auto ranges, worker->take(3));
    flaky.fails = fault;
    EXPECT_EQ(worker->commit().code(), fault);
    EXPECT_EQ(*worker->take(3), ranges) << "until it is known";
    EXPECT_EQ(worker->commit().code(), turn % 2 == 0 ? StatusCode::kOk : fault);
    flaky.fails = StatusCode::kOk;
    ASSERT_OK(worker->commit());
    for (const SampleRange& range : ranges) {
      for (uint64_t at = range.begin; at < range.end; ++at) ++used_[{range.partition, at}];
    }
  }
  expect_each_once(2);
}

TEST_F(StoreLedgerTest, ATakeWhoseReplyWasLostIsAskedAgain) {
  FlakyStore flaky(*store_);
  ASSERT_OK_AND_ASSIGN(const auto worker, make_store_ledger(data_, options("a"), flaky));
  flaky.fails = StatusCode::kTimeout;
  EXPECT_EQ(worker->take(3).status().code(), StatusCode::kTimeout);
  flaky.fails = StatusCode::kOk;
  while (!worker->is_done()) train(*worker, 3);
  expect_each_once(2);
}

TEST_F(StoreLedgerTest, ALostReplyToOneCallIsNotTakenForThatOfAnother) {
  FlakyStore flaky(*store_);
  ASSERT_OK_AND_ASSIGN(const auto worker, make_store_ledger(data_, options("a"), flaky));
  ASSERT_OK(worker->take(2));
  flaky.fails = StatusCode::kTimeout;
  EXPECT_EQ(worker->take(5).status().code(), StatusCode::kTimeout);
  flaky.fails = StatusCode::kOk;
  ASSERT_OK_AND_ASSIGN(const auto ranges, worker->take(2));
  EXPECT_EQ(data::samples_in(ranges), 2U);
  ASSERT_OK(worker->commit());
  EXPECT_EQ(worker->committed(), 2U);
  EXPECT_EQ(worker->take(2)->front().begin, ranges.front().end);
}

TEST_F(StoreLedgerTest, ARestartFromACheckpointRollsItBack) {
  const auto old = join("a");
  train(*old, 10);
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, old->save());
  const auto at_checkpoint = used_;
  train(*old, 10);
  ASSERT_OK(old->take(10));

  StoreLedgerOptions again = options("a");
  again.lineage = 2;
  again.from = checkpoint;
  ASSERT_OK_AND_ASSIGN(const auto first, make_store_ledger(data_, again, *store_));
  used_ = at_checkpoint;
  EXPECT_EQ(first->committed(), 10U);
  EXPECT_FAILS(old->commit(), StatusCode::kCancelled, "a larger lineage of the job has begun");
  train(*first, 10);
  again.id = "b";  // the second worker continues at the position of the first
  ASSERT_OK_AND_ASSIGN(const auto second, make_store_ledger(data_, again, *store_));
  EXPECT_EQ(second->committed(), 20U);
  while (!second->is_done()) {
    train(*first, 10);
    train(*second, 10);
  }
  expect_each_once(2);
  EXPECT_FAILS(make_store_ledger(data_, options("a"), *store_), StatusCode::kCancelled,
               "a larger lineage of the job has begun");
}

// The worker would train with old weights and new samples, which would stay unnoticed.
TEST_F(StoreLedgerTest, ARestartThatForgetsItsLineageIsRefused) {
  auto old = join("a");
  train(*old, 10);
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, old->save());
  train(*old, 10);
  ASSERT_OK_AND_ASSIGN(const auto later, old->save());
  old.reset();
  StoreLedgerOptions again = options("a");
  again.from = checkpoint;
  EXPECT_FAILS(make_store_ledger(data_, again, *store_), StatusCode::kInvalidArgument,
               "its lineage 1 has already begun from another state; use a larger lineage");
  again.lineage = 2;
  ASSERT_OK_AND_ASSIGN(const auto first, make_store_ledger(data_, again, *store_));
  EXPECT_EQ(first->committed(), 10U);
  StoreLedgerOptions other = again;
  other.id = "b";
  other.from = later;
  EXPECT_FAILS(make_store_ledger(data_, other, *store_), StatusCode::kInvalidArgument,
               "its lineage 2 has already begun from another state");
  other.from.clear();
  EXPECT_OK(make_store_ledger(data_, other, *store_));
}

TEST_F(StoreLedgerTest, RefusesWhatItCannotDo) {
  const auto fails = [&](const StoreLedgerOptions& options, StatusCode code, const char* text) {
    EXPECT_FAILS(make_store_ledger(data_, options, *store_), code, text);
  };
  const auto fails_with = [&](const auto& change, StatusCode code, const char* text) {
    LedgerOptions changed = data_;
    change(changed);
    EXPECT_FAILS(make_store_ledger(changed, options("b"), *store_), code, text);
  };
  fails(options("a/b"), StatusCode::kInvalidArgument, "not a valid name");
  fails(options(""), StatusCode::kInvalidArgument, "not a valid name");
  StoreLedgerOptions bad = options("a");
  bad.lease = 0s;
  fails(bad, StatusCode::kInvalidArgument, "lease");
  fails_with([](auto& data) { data.order = SampleOrder::kGlobal, data.batch_samples = 4; },
             StatusCode::kInvalidArgument, "the order is global");
  fails_with([](auto& data) { data.samples = 0; }, StatusCode::kInvalidArgument, "samples is 0");
  data_.shuffle = Shuffle::kSamples;
  const auto one = join("a");
  fails_with([](auto& data) { data.seed = 9; }, StatusCode::kInvalidArgument, "here 9");
  fails_with([](auto& data) { data.window_partitions = 2; }, StatusCode::kInvalidArgument,
             "window_partitions is 1, here 2");
}

TEST_F(StoreLedgerTest, WaitsWhileOthersHoldTheRest) {
  data_ = {.samples = 10, .partition_samples = 10, .epochs = 1};
  auto holder = join("holder");
  ASSERT_OK(holder->take());
  testing::CountingStore counting(*store_);
  ASSERT_OK_AND_ASSIGN(const auto waiting, make_store_ledger(data_, options("waiting"), counting));
  EXPECT_TRUE(waiting->take(5)->empty());
  EXPECT_FAILS(waiting->wait(deadline_in(0s)), StatusCode::kTimeout, "");
  const int puts = counting.puts;
  EXPECT_TRUE(waiting->take(5)->empty());
  EXPECT_EQ(counting.puts, puts) << "a waiting worker changes nothing";
  holder.reset();
  EXPECT_OK(waiting->wait(deadline_in(60s)));
  EXPECT_EQ(data::samples_in(*waiting->take(5)), 5U);
  EXPECT_OK(waiting->wait(deadline_in(0s)));  // it holds samples
}

// A worker is stopped for longer than its lease.
TEST(StoreLedger, AStoppedWorkerComesBackAsANewLife) {
  sim::Stacks stacks;
  sim::SimRuntime runtime(1, stacks);
  const std::string stuck = runtime.run([&] {
    sim::SimNode& node = runtime.make_node("store");
    sim::SimNode& stopped = runtime.make_node("stopped");
    store::MemoryStore store(node);
    const LedgerOptions data = {.samples = 10, .partition_samples = 10};
    StoreLedgerOptions options;
    options.id = "a";
    options.lease = 1s;
    ASSERT_OK_AND_ASSIGN(const auto one, make_store_ledger(data, options, store, stopped));
    options.id = "b";
    ASSERT_OK_AND_ASSIGN(const auto other, make_store_ledger(data, options, store, node));
    ASSERT_OK(one->take(4));
    runtime.sleep(1min);
    EXPECT_EQ(data::samples_in(*other->take(4)), 3U) << "half of what the other has not begun";
    stopped.pause_until(runtime.elapsed() + 3s);
    runtime.sleep(2s);
    EXPECT_EQ(data::samples_in(*other->take(8)), 8U);
    ASSERT_OK(other->commit());
    EXPECT_EQ(data::samples_in(*other->take(8)), 2U);
    EXPECT_EQ(other->repeated(), 4U);
    runtime.sleep(2s);
    EXPECT_FAILS(one->commit(), StatusCode::kWorldChanged, "did not renew its lease of 1000 ms");
    EXPECT_TRUE(one->take(4)->empty()) << "the other works on the rest";
    EXPECT_EQ(store.get("ffdl/job/samples/workers/a")->value, "3") << "the third life";
    ASSERT_OK(other->commit());
    EXPECT_TRUE(one->take(4)->empty());
    EXPECT_TRUE(one->is_done());
    EXPECT_EQ(one->repeated(), 4U);
  });
  EXPECT_EQ(stuck, "");
}

// Runs two workers, one three times as slow, in simulated time. The epoch takes as long as at their
// combined speed. Equal halves would take twice as long.
TEST(StoreLedger, TheFastOneIsGivenWhatTheSlowOneCannotDo) {
  constexpr uint64_t kSamples = 20'000;
  constexpr uint64_t kBatch = 16;
  sim::Stacks stacks;
  sim::SimRuntime runtime(1, stacks);
  Duration took{};
  const std::string stuck = runtime.run([&] {
    sim::SimNode& node = runtime.make_node("host");
    store::MemoryStore store(node);
    const auto work_off = [&](const std::string& id, Duration time_of_batch) {
      const LedgerOptions data = {.samples = kSamples, .partition_samples = 256};
      ASSERT_OK_AND_ASSIGN(const auto ledger, make_store_ledger(data, {.id = id}, store, node));
      while (!ledger->is_done()) {
        ASSERT_OK_AND_ASSIGN(const auto ranges, ledger->take(kBatch));
        if (ranges.empty()) {
          ASSERT_OK(ledger->wait(node.now() + 10s));
          continue;
        }
        runtime.sleep(time_of_batch * ledger->taken() / kBatch);
        ASSERT_OK(ledger->commit());
      }
    };
    const Duration begin = runtime.elapsed();
    const auto slow = node.spawn("slow", [&](const StopToken&) { work_off("slow", 3ms); });
    work_off("fast", 1ms);
    took = runtime.elapsed() - begin;
  });
  EXPECT_EQ(stuck, "");
  const Duration ideal = 1ms * (kSamples / kBatch) * 3 / 4;  // 4 batches in 3 ms
  EXPECT_GE(took, ideal);
  EXPECT_LE(took, ideal * 105 / 100);
}

// Runs the reference through the pipeline: 10,007 samples and two workers out of step. A third one
// joins in the middle of the epoch, or one is lost there while the others go on.
class Reference : public StoreLedgerTest {
 protected:
  struct Worker {
    std::unique_ptr<CommitLog> log;
    std::unique_ptr<SampleLedger> ledger;
    std::unique_ptr<DataPipeline> pipeline;
    uint64_t batch;
  };

  Reference() {
    data_ = {.samples = 10'007,
             .partition_samples = 256,
             .epochs = 1,
             .seed = 3,
             .shuffle = Shuffle::kSamples};
  }

  Worker start(const std::string& id, uint64_t batch) {
    Worker worker;
    worker.log = std::move(CommitLog::open(folder_.file(id), data_)).value();
    StoreLedgerOptions mine = options(id);
    mine.member.on_stable = [log = worker.log.get()](const CommittedStep& step) {
      log->write(step);
    };
    worker.ledger = std::move(make_store_ledger(data_, mine, *store_)).value();
    worker.pipeline = std::move(DataPipeline::create(source_, *worker.ledger, {})).value();
    worker.batch = batch;
    paths_.push_back(folder_.file(id));
    return worker;
  }
  void use(Worker& worker) {
    DataBatch batch;
    ASSERT_OK(worker.pipeline->next(batch, worker.batch));
    for (const auto& sample : batch.samples) ++uses_[testing::number_of(sample)];
  }
  void step(Worker& worker) {
    use(worker);
    ASSERT_OK(worker.ledger->commit());
  }
  // Returns the numbers of samples that were not used and that were used more than once.
  std::pair<uint64_t, uint64_t> lost_and_repeated() const {
    std::pair<uint64_t, uint64_t> counts;
    for (const uint64_t uses : uses_) {
      if (uses == 0) ++counts.first;
      if (uses > 1) counts.second += uses - 1;
    }
    return counts;
  }
  void expect_audited() {
    ASSERT_OK_AND_ASSIGN(const CommitAudit audit, audit_commit_logs(paths_, {.complete = true}));
    EXPECT_EQ(audit.first_problems, std::vector<std::string>());
    EXPECT_EQ(audit.samples, 10'007U);
  }

  TempFolder folder_;
  NumberedSource source_{10'007};
  std::vector<uint64_t> uses_ = std::vector<uint64_t>(10'007);
  std::vector<std::string> paths_;
};

TEST_F(Reference, NoneIsLostOrRepeatedWhenAThirdWorkerComes) {
  Worker a = start("a", 32);
  Worker b = start("b", 17);
  while (a.ledger->committed() < 5'000) {
    step(a);
    step(a);  // out of step
    step(b);
  }
  Worker c = start("c", 64);
  while (!a.ledger->is_done()) {
    step(c);
    step(a);
    step(b);
  }
  EXPECT_EQ(lost_and_repeated(), std::pair(uint64_t{0}, uint64_t{0}));
  expect_audited();
}

TEST_F(Reference, AtMostTheUncommittedBatchIsRepeatedAfterACrash) {
  Worker a = start("a", 32);
  std::optional<Worker> b = start("b", 17);
  while (a.ledger->committed() < 5'000) {
    step(a);
    step(a);
    step(*b);
  }
  use(*b);  // it is killed before it commits
  b.reset();
  while (!a.ledger->is_done()) step(a);
  EXPECT_EQ(lost_and_repeated(), std::pair(uint64_t{0}, uint64_t{17}));
  EXPECT_EQ(a.ledger->repeated(), 17U);
  expect_audited();
}

}  // namespace
}  // namespace ffdl
