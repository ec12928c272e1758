#include "ffdl/store_ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/ledger_options.h"
#include "data/numbered_source.h"
#include "ffdl/commit_log.h"
#include "ffdl/data_pipeline.h"
#include "sim/sim_runtime.h"
#include "store/memory_store.h"
#include "support/forwarding_store.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::NumberedSource;

// Puts and says that the reply was lost, or does not put.
class FlakyStore final : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    if (fails == StatusCode::kUnavailable) return Status(fails, "it is away");
    auto made = inner_.compare_and_put(key, expected, value, lease);
    if (fails == StatusCode::kTimeout) return Status(fails, "the reply is lost");
    return made;
  }

  StatusCode fails = StatusCode::kOk;
};

// Some workers of one job, one at a time, in one store. A worker that is dropped has died.
class StoreLedgerTest : public ::testing::Test {
 protected:
  StoreLedgerOptions options(const std::string& id) {
    StoreLedgerOptions options;
    options.data = data_;
    options.id = id;
    return options;
  }
  std::unique_ptr<StoreLedger> join(const std::string& id) {
    auto joined = StoreLedger::join(options(id), *store_, system_runtime());
    EXPECT_OK(joined);
    return std::move(joined).value();
  }
  // Trains on what one takes.
  void train(StoreLedger& worker, uint64_t count) {
    ASSERT_OK_AND_ASSIGN(const auto ranges, worker.take(count));
    ASSERT_OK(worker.advance());
    for (const SampleRange& range : ranges) {
      for (uint64_t at = range.begin; at < range.end; ++at) ++used_[{range.partition, at}];
    }
  }
  void expect_each_once(uint64_t epochs) {
    EXPECT_EQ(used_.size(), epochs * data_.samples);
    for (const auto& [at, times] : used_) {
      EXPECT_EQ(times, 1) << at.second << " of partition " << at.first;
    }
  }

  std::unique_ptr<Store> store_ = std::move(open_store("mem://", system_runtime())).value();
  PartitionLedgerOptions data_ = {.samples = 100, .partition_samples = 10, .epochs = 2};
  std::map<std::pair<uint32_t, uint64_t>, int> used_{};
};

TEST_F(StoreLedgerTest, OneWorkerNeedsOnePutForEachCommit) {
  const auto worker = join("a");
  while (!worker->is_done()) train(*worker, 5);
  expect_each_once(2);
  const StoreLedgerStats stats = worker->stats();
  EXPECT_EQ(stats.commits, 40U);
  EXPECT_EQ(stats.conflicts, 0U);
  EXPECT_EQ(stats.repeated, 0U);
  EXPECT_EQ(stats.attempts, 42U) << "one to join, one to say what it takes first";
  EXPECT_LE(stats.looks, 3U);
  EXPECT_TRUE(worker->take()->empty());
  EXPECT_OK(worker->advance());  // nothing was taken
}

TEST_F(StoreLedgerTest, WorkersOutOfStepShareAnEpochByTheirSpeed) {
  const auto slow = join("slow");
  const auto fast = join("fast");
  while (slow->epoch() == 0) {
    for (int i = 0; i < 3 && fast->epoch() == 0; ++i) train(*fast, 2);
    train(*slow, 2);
  }
  EXPECT_NEAR(static_cast<double>(fast->stats().commits), 38, 3)
      << "three of four batches are the fast one's";
  EXPECT_EQ(fast->stats().repeated + slow->stats().repeated, 0U);
}

TEST_F(StoreLedgerTest, ABatchIsTheSameUntilItIsCommitted) {
  const auto worker = join("a");
  ASSERT_OK_AND_ASSIGN(const auto first, worker->take(4));
  EXPECT_EQ(worker->taken(), 4U);
  EXPECT_EQ(*worker->take(4), first);
  EXPECT_EQ(worker->take(2)->front().begin, first.front().begin);
  EXPECT_EQ(worker->taken(), 2U);
  ASSERT_OK(worker->advance());
  EXPECT_EQ(worker->taken(), 0U);
  EXPECT_EQ(worker->committed(), 2U);
  EXPECT_EQ(worker->take(4)->front().begin, first.front().begin + 2);
}

TEST_F(StoreLedgerTest, MoreThanALeaseHoldsIsGivenFromSeveral) {
  data_.partitions_wanted = 1;
  const auto worker = join("a");
  ASSERT_OK_AND_ASSIGN(const auto all, worker->take(35));
  EXPECT_EQ(data::samples_in(all), 35U);
  ASSERT_OK_AND_ASSIGN(const auto indices, worker->sample_indices(all));
  EXPECT_EQ(indices.size(), 35U);
  EXPECT_EQ(data::samples_in(worker->leases()), 50U) << "and one to read ahead";
}

TEST_F(StoreLedgerTest, TheDeadOnesBatchIsRepeatedAndCounted) {
  auto dying = join("dying");
  const auto other = join("other");
  train(*dying, 4);
  train(*other, 4);
  ASSERT_OK(dying->take(4));
  dying.reset();
  while (!other->is_done()) train(*other, 4);
  expect_each_once(2);
  EXPECT_EQ(other->stats().repeated, 4U);
}

TEST_F(StoreLedgerTest, WhoLeavesGivesBackWithoutACount) {
  const auto leaving = join("leaving");
  const auto other = join("other");
  train(*leaving, 4);
  ASSERT_OK(leaving->leave());
  EXPECT_FAILS(leaving->take(1), StatusCode::kCancelled, "has left");
  while (!other->is_done()) train(*other, 4);
  expect_each_once(2);
  EXPECT_EQ(other->stats().repeated, 0U);
}

TEST_F(StoreLedgerTest, ANewLifeUnderAnIdEndsTheOneBefore) {
  const auto before = join("a");
  train(*before, 4);
  ASSERT_OK(before->take(4));
  const auto now = join("a");
  EXPECT_GT(now->self().incarnation, before->self().incarnation);
  EXPECT_FAILS(before->advance(), StatusCode::kCancelled, "another life");
  EXPECT_FAILS(before->take(4), StatusCode::kCancelled, "another life");
  while (!now->is_done()) train(*now, 4);
  expect_each_once(2);
  EXPECT_EQ(now->stats().repeated, 4U);
}

TEST_F(StoreLedgerTest, ACommitWhoseReplyWasLostHappensOnce) {
  FlakyStore flaky(*store_);
  ASSERT_OK_AND_ASSIGN(const auto worker, StoreLedger::join(options("a"), flaky, system_runtime()));
  for (int turn = 0; !worker->is_done(); ++turn) {
    const StatusCode fault = turn % 2 == 0 ? StatusCode::kTimeout : StatusCode::kUnavailable;
    ASSERT_OK_AND_ASSIGN(const auto ranges, worker->take(3));
    flaky.fails = fault;
    EXPECT_EQ(worker->advance().code(), fault);
    EXPECT_EQ(*worker->take(3), ranges) << "until it is known";
    EXPECT_EQ(worker->advance().code(), turn % 2 == 0 ? StatusCode::kOk : fault);
    flaky.fails = StatusCode::kOk;
    ASSERT_OK(worker->advance());
    for (const SampleRange& range : ranges) {
      for (uint64_t at = range.begin; at < range.end; ++at) ++used_[{range.partition, at}];
    }
  }
  expect_each_once(2);
}

TEST_F(StoreLedgerTest, ATakeWhoseReplyWasLostIsAskedAgain) {
  FlakyStore flaky(*store_);
  ASSERT_OK_AND_ASSIGN(const auto worker, StoreLedger::join(options("a"), flaky, system_runtime()));
  flaky.fails = StatusCode::kTimeout;
  EXPECT_EQ(worker->take(3).status().code(), StatusCode::kTimeout);
  flaky.fails = StatusCode::kOk;
  while (!worker->is_done()) train(*worker, 3);
  expect_each_once(2);
}

TEST_F(StoreLedgerTest, ALostReplyToOneCallIsNotTakenForThatOfAnother) {
  FlakyStore flaky(*store_);
  ASSERT_OK_AND_ASSIGN(const auto worker, StoreLedger::join(options("a"), flaky, system_runtime()));
  ASSERT_OK(worker->take(2));
  flaky.fails = StatusCode::kTimeout;
  EXPECT_EQ(worker->take(5).status().code(), StatusCode::kTimeout);
  flaky.fails = StatusCode::kOk;
  ASSERT_OK_AND_ASSIGN(const auto ranges, worker->take(2));
  EXPECT_EQ(data::samples_in(ranges), 2U);
  ASSERT_OK(worker->advance());
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
  ASSERT_OK_AND_ASSIGN(const auto first, StoreLedger::join(again, *store_, system_runtime()));
  used_ = at_checkpoint;
  EXPECT_EQ(first->committed(), 10U);
  EXPECT_FAILS(old->advance(), StatusCode::kCancelled, "the job began anew");
  train(*first, 10);
  again.id = "b";  // the second one goes on where the first one is
  ASSERT_OK_AND_ASSIGN(const auto second, StoreLedger::join(again, *store_, system_runtime()));
  EXPECT_EQ(second->committed(), 20U);
  while (!second->is_done()) {
    train(*first, 10);
    train(*second, 10);
  }
  expect_each_once(2);
  EXPECT_FAILS(StoreLedger::join(options("a"), *store_, system_runtime()), StatusCode::kCancelled,
               "the job began anew");
}

// It would train with the weights of then and the samples of now, which nobody would notice.
TEST_F(StoreLedgerTest, ARestartThatForgetsItsLineageIsRefused) {
  auto old = join("a");
  train(*old, 10);
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, old->save());
  train(*old, 10);
  ASSERT_OK_AND_ASSIGN(const auto later, old->save());
  old.reset();
  StoreLedgerOptions again = options("a");
  again.from = checkpoint;
  EXPECT_FAILS(StoreLedger::join(again, *store_, system_runtime()), StatusCode::kInvalidArgument,
               "its lineage 1 is under way and did not begin there; give a larger lineage");
  again.lineage = 2;
  ASSERT_OK_AND_ASSIGN(const auto first, StoreLedger::join(again, *store_, system_runtime()));
  EXPECT_EQ(first->committed(), 10U);
  StoreLedgerOptions other = again;
  other.id = "b";
  other.from = later;
  EXPECT_FAILS(StoreLedger::join(other, *store_, system_runtime()), StatusCode::kInvalidArgument,
               "its lineage 2 is under way and did not begin there");
  other.from.clear();
  EXPECT_OK(StoreLedger::join(other, *store_, system_runtime()));
}

TEST_F(StoreLedgerTest, RefusesWhatItCannotDo) {
  const auto fails = [&](const StoreLedgerOptions& options, StatusCode code, const char* text) {
    EXPECT_FAILS(StoreLedger::join(options, *store_, system_runtime()), code, text);
  };
  fails(options("a/b"), StatusCode::kInvalidArgument, "no name");
  fails(options(""), StatusCode::kInvalidArgument, "no name");
  StoreLedgerOptions bad = options("a");
  bad.lease = 0s;
  fails(bad, StatusCode::kInvalidArgument, "lease");
  bad = options("a");
  bad.data.order = SampleOrder::kGlobal;
  bad.data.batch_samples = 4;
  fails(bad, StatusCode::kInvalidArgument, "the order is global");
  bad = options("a");
  bad.data.samples = 0;
  fails(bad, StatusCode::kInvalidArgument, "samples is 0");
  data_.shuffle = Shuffle::kSamples;
  const auto one = join("a");
  bad = options("b");
  bad.data.seed = 1;
  fails(bad, StatusCode::kCorrupt, "another data set");
  bad = options("b");
  bad.data.window_partitions = 2;
  fails(bad, StatusCode::kCorrupt, "another data set");
}

TEST_F(StoreLedgerTest, WaitsWhileOthersHoldTheRest) {
  data_ = {.samples = 10, .partition_samples = 10, .epochs = 1};
  auto holder = join("holder");
  ASSERT_OK(holder->take());
  const auto waiting = join("waiting");
  EXPECT_TRUE(waiting->take(5)->empty());
  EXPECT_FAILS(waiting->wait(deadline_in(0s)), StatusCode::kTimeout, "");
  const uint64_t attempts = waiting->stats().attempts;
  EXPECT_TRUE(waiting->take(5)->empty());
  EXPECT_EQ(waiting->stats().attempts, attempts) << "who waits changes nothing";
  holder.reset();
  EXPECT_OK(waiting->wait(deadline_in(10s)));
  EXPECT_EQ(data::samples_in(*waiting->take(5)), 5U);
  EXPECT_OK(waiting->wait(deadline_in(0s)));  // it holds something
}

// A worker that is stopped for longer than its lease.
TEST(StoreLedger, WhoDidNotRenewFindsOut) {
  sim::Stacks stacks;
  sim::SimRuntime runtime(1, stacks);
  const std::string stuck = runtime.run([&] {
    sim::SimNode& node = runtime.make_node("store");
    sim::SimNode& stopped = runtime.make_node("stopped");
    store::MemoryStore store(node);
    StoreLedgerOptions options;
    options.data = {.samples = 10, .partition_samples = 10};
    options.id = "a";
    options.lease = 1s;
    ASSERT_OK_AND_ASSIGN(const auto one, StoreLedger::join(options, store, stopped));
    options.id = "b";
    ASSERT_OK_AND_ASSIGN(const auto other, StoreLedger::join(options, store, node));
    ASSERT_OK(one->take(4));
    runtime.sleep(1min);
    EXPECT_EQ(data::samples_in(*other->take(4)), 3U) << "half of what the other has not begun";
    stopped.pause_until(runtime.elapsed() + 3s);
    runtime.sleep(2s);
    EXPECT_EQ(data::samples_in(*other->take(8)), 8U);
    ASSERT_OK(other->advance());
    EXPECT_EQ(data::samples_in(*other->take(8)), 2U);
    EXPECT_EQ(other->stats().repeated, 4U);
    runtime.sleep(2s);
    EXPECT_FAILS(one->advance(), StatusCode::kCancelled, "renew");
  });
  EXPECT_EQ(stuck, "");
}

// Two workers, one three times as slow, in made-up time: the epoch ends as if both together were
// one worker. Halves made before would take twice as long.
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
      StoreLedgerOptions options;
      options.data = {.samples = kSamples, .partition_samples = 256};
      options.id = id;
      ASSERT_OK_AND_ASSIGN(const auto ledger, StoreLedger::join(options, store, node));
      while (!ledger->is_done()) {
        ASSERT_OK_AND_ASSIGN(const auto ranges, ledger->take(kBatch));
        if (ranges.empty()) {
          ASSERT_OK(ledger->wait(node.now() + 10s));
          continue;
        }
        runtime.sleep(time_of_batch * ledger->taken() / kBatch);
        ASSERT_OK(ledger->advance());
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

// Through the pipeline, as the reference has it: 10,007 samples, two workers out of step that
// become three in the middle of the epoch, or lose one there while the others go on.
class Reference : public StoreLedgerTest {
 protected:
  struct Worker {
    std::unique_ptr<CommitLog> log;
    std::unique_ptr<StoreLedger> ledger;
    std::unique_ptr<DataPipeline> pipeline;
    uint64_t batch;
  };

  Reference() { data_ = {.samples = 10'007, .partition_samples = 256, .epochs = 1, .seed = 3}; }

  Worker start(const std::string& id, uint64_t batch) {
    Worker worker;
    worker.log = std::move(CommitLog::open(folder_.file(id), data_)).value();
    StoreLedgerOptions mine = options(id);
    mine.data.shuffle = Shuffle::kSamples;
    mine.data.on_stable = [log = worker.log.get()](const CommittedStep& step) { log->write(step); };
    worker.ledger = std::move(StoreLedger::join(mine, *store_, system_runtime())).value();
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
    ASSERT_OK(worker.ledger->advance());
  }
  // How many samples were not used, and how many more than once.
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
  use(*b);  // and is killed before it commits
  b.reset();
  while (!a.ledger->is_done()) step(a);
  EXPECT_EQ(lost_and_repeated(), std::pair(uint64_t{0}, uint64_t{17}));
  EXPECT_EQ(a.ledger->stats().repeated, 17U);
  expect_audited();
}

}  // namespace
}  // namespace ffdl
