#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/store_back_ends.h"
#include "data/ledger/audit.h"
#include "data/ledger/ledger_options.h"
#include "data/ledger_text.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/ps/parameter_server.h"
#include "ffdl/store.h"
#include "support/counting_store.h"
#include "support/learners.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using data::testing::text_of;

// Runs the workers of a job in turns, each with its own ledger.
class Job {
 public:
  explicit Job(const LedgerOptions& data) : data_(data) {}
  virtual ~Job() = default;

  virtual Result<std::unique_ptr<SampleLedger>> make(const LedgerOptions& data,
                                                     const LedgerMemberOptions& member) = 0;
  // Adds a worker; `options` without `on_stable`.
  void add(LedgerMemberOptions options = {}) {
    options.on_stable = [this](const CommittedStep& step) {
      EXPECT_EQ(reported.try_emplace(step.step, step).first->second, step);
    };
    auto made = make(data_, options);
    ASSERT_OK(made);
    ledgers.push_back(std::move(made).value());
    members_changed();
  }
  // Ends a worker without notice.
  virtual void kill(size_t worker) {
    ledgers.erase(ledgers.begin() + static_cast<std::ptrdiff_t>(worker));
    members_changed();
  }
  // Commits the samples that the workers have taken.
  virtual void commit() = 0;
  // Counts the sample indices of all ranges as used.
  void use(SampleLedger& ledger, const std::vector<SampleRange>& ranges) {
    ASSERT_OK_AND_ASSIGN(const auto indices, ledger.sample_indices(ranges));
    for (const uint64_t index : indices) ++uses[index];
  }
  // Trains until all epochs are over; worker i takes 3 + 2 * i samples at a time.
  void train() {
    for (int turn = 0; !ledgers[0]->is_done(); ++turn) {
      ASSERT_LT(turn, 1000);
      for (size_t i = 0; i < ledgers.size(); ++i) {
        ASSERT_OK_AND_ASSIGN(const auto ranges, ledgers[i]->take(3 + 2 * i));
        use(*ledgers[i], ranges);
      }
      ASSERT_NO_FATAL_FAILURE(commit());
    }
  }

  std::vector<std::unique_ptr<SampleLedger>> ledgers;
  std::map<uint64_t, CommittedStep> reported;
  std::map<uint64_t, int> uses;

 protected:
  virtual void members_changed() {}

  const LedgerOptions data_;
};

class SessionJob final : public Job {
 public:
  using Job::Job;

  Result<std::unique_ptr<SampleLedger>> make(const LedgerOptions& data,
                                             const LedgerMemberOptions& member) override {
    return make_session_ledger(data, member);
  }
  void commit() override {
    const size_t bytes = ledgers[0]->participant()->record_bytes();
    std::vector<std::byte> records(ledgers.size() * bytes);
    for (size_t rank = 0; rank < ledgers.size(); ++rank) {
      ledgers[rank]->participant()->write_record(std::span(records).subspan(rank * bytes, bytes));
    }
    ++step_;
    for (const auto& ledger : ledgers) {
      ledger->participant()->applied(step_, StepRecords(records, bytes, bytes));
      ledger->participant()->stable(step_);
    }
  }

 private:
  // A newcomer receives the state of the first member.
  void members_changed() override {
    World world;
    world.generation = ++generation_;
    while (ids_.size() > ledgers.size()) ids_.erase(ids_.begin());
    while (ids_.size() < ledgers.size()) ids_.push_back(std::string(1, next_id_++));
    for (const std::string& id : ids_) world.members.push_back({id, 1});
    if (generation_ > 1) world.state_holders = {world.members[0]};
    if (ledgers.size() > 1) {
      const auto state = ledgers[0]->participant()->save();
      ASSERT_OK(ledgers.back()->participant()->restore(state));
    }
    for (world.rank = 0; world.rank < world.size(); ++world.rank) {
      ledgers[static_cast<size_t>(world.rank)]->participant()->world_changed(world);
    }
  }

  uint64_t step_ = 0;
  uint64_t generation_ = 0;
  char next_id_ = 'a';
  std::vector<std::string> ids_;
};

class StoreJob final : public Job {
 public:
  using Job::Job;
  ~StoreJob() override { ledgers.clear(); }

  Result<std::unique_ptr<SampleLedger>> make(const LedgerOptions& data,
                                             const LedgerMemberOptions& member) override {
    StoreLedgerOptions options = {.id = std::string(1, next_id_++), .lease = 60s};
    options.member = member;
    return make_store_ledger(data, options, *store_);
  }
  void commit() override {
    for (const auto& ledger : ledgers) ASSERT_OK(ledger->commit());
  }

 private:
  const std::unique_ptr<Store> store_ = std::move(open_store("mem://", system_runtime())).value();
  char next_id_ = 'a';
};

class PushJob final : public Job {
 public:
  explicit PushJob(const LedgerOptions& data) : Job(data) {
    ParameterServerOptions options;
    options.parameters = 1;
    options.partitions = 100;
    server_ = testing::create_server(options);
    EXPECT_OK(server_->start());
  }
  ~PushJob() override { ledgers.clear(); }

  Result<std::unique_ptr<SampleLedger>> make(const LedgerOptions& data,
                                             const LedgerMemberOptions& member) override {
    learners_.push_back(testing::attach(*server_));
    return make_push_ledger(data, *learners_.back(), member);
  }
  void kill(size_t worker) override {
    Job::kill(worker);
    learners_.erase(learners_.begin() + static_cast<std::ptrdiff_t>(worker));
  }
  void commit() override {
    for (size_t i = 0; i < ledgers.size(); ++i) {
      ASSERT_OK_AND_ASSIGN(const auto ranges, ledgers[i]->take(ledgers[i]->taken()));
      if (ranges.empty()) continue;
      ASSERT_OK_AND_ASSIGN(const auto slot, learners_[i]->gradient_slot(deadline_in(60s)));
      std::fill(slot.begin(), slot.end(), 0.0F);
      ASSERT_OK(learners_[i]->push(Gradient::slot(), ranges));
      ASSERT_OK(learners_[i]->flush(deadline_in(60s)));
    }
  }

 private:
  std::unique_ptr<ParameterServer> server_;
  std::vector<std::unique_ptr<Learner>> learners_;
};

struct Committer {
  std::string name;
  std::function<std::unique_ptr<Job>(const LedgerOptions&)> make;
};

// Tests that every ledger behaves as sample_ledger.h documents.
class SampleLedgerConformance : public ::testing::TestWithParam<Committer> {
 protected:
  std::unique_ptr<Job> make_job(int workers, const LedgerMemberOptions& member = {}) const {
    auto job = GetParam().make(data_);
    for (int i = 0; i < workers; ++i) job->add(member);
    return job;
  }
  bool is_store() const { return GetParam().name == "store"; }
  bool is_session() const { return GetParam().name == "session"; }

  LedgerOptions data_ = {
      .samples = 103, .partition_samples = 10, .epochs = 2, .shuffle = Shuffle::kNone};
};

TEST_P(SampleLedgerConformance, EachSampleIsCommittedOncePerEpoch) {
  data_.shuffle = Shuffle::kSamples;
  data_.window_partitions = 3;
  for (const int workers : {1, 3}) {
    const auto job = make_job(workers);
    job->train();
    EXPECT_EQ(job->uses.size(), 103U);
    for (const auto& [index, times] : job->uses) EXPECT_EQ(times, 2) << index;
    data::Audit audit({.samples = 103, .partition_samples = 10}, 2);
    for (const auto& [number, step] : job->reported) audit.add(step, "a worker");
    const CommitAudit made = audit.finish({.complete = true});
    EXPECT_EQ(made.first_problems, std::vector<std::string>());
    EXPECT_EQ(made.samples, 206U);
  }
}

TEST_P(SampleLedgerConformance, AWorkerThatEndsLosesNoSample) {
  const auto job = make_job(2);
  for (int turn = 0; turn < 3; ++turn) {
    for (const auto& ledger : job->ledgers) {
      ASSERT_OK_AND_ASSIGN(const auto ranges, ledger->take(4));
      job->use(*ledger, ranges);
    }
    job->commit();
  }
  ASSERT_OK(job->ledgers[0]->take(4));  // not committed
  job->kill(0);
  job->add();
  job->train();
  EXPECT_EQ(job->uses.size(), 103U);
  for (const auto& [index, times] : job->uses) EXPECT_EQ(times, 2) << index;
  EXPECT_EQ(job->ledgers[0]->repeated(), is_store() ? 4U : 0U);
}

TEST_P(SampleLedgerConformance, ABatchIsTheSameUntilItIsCommitted) {
  const auto job = make_job(1);
  SampleLedger& ledger = *job->ledgers[0];
  EXPECT_EQ(text_of(*ledger.take(4)), "0:0-4");
  EXPECT_EQ(text_of(*ledger.take(4)), "0:0-4");
  EXPECT_EQ(ledger.taken(), 4U);
  EXPECT_EQ(text_of(*ledger.take(2)), "0:0-2") << "the last answer is committed";
  EXPECT_EQ(ledger.taken(), 2U);
  EXPECT_EQ(ledger.committed(), 0U);
  job->commit();
  EXPECT_EQ(ledger.taken(), 0U);
  EXPECT_EQ(ledger.committed(), 2U);
  EXPECT_EQ(ledger.epoch(), 0U);
  EXPECT_EQ(text_of(*ledger.take(3)), "0:2-5");
  EXPECT_TRUE(ledger.take(0)->empty());
}

TEST_P(SampleLedgerConformance, SamplesAreTakenFromTheFrontOfTheLeases) {
  const auto job = make_job(2);
  for (int turn = 0; turn < 6; ++turn) {
    for (const auto& ledger : job->ledgers) {
      ASSERT_OK_AND_ASSIGN(const auto ranges, ledger->take(7));
      const auto front = data::front_of(ledger->leases(), data::samples_in(ranges));
      EXPECT_EQ(text_of(ranges), text_of(front));
    }
    job->commit();
  }
}

TEST_P(SampleLedgerConformance, HoldsAsManyPartitionsAsItWants) {
  const auto job = make_job(1, {.partitions_wanted = 3});
  SampleLedger& ledger = *job->ledgers[0];
  const auto take_and_commit = [&] {
    ASSERT_OK(ledger.take(1));
    job->commit();
    ASSERT_OK(ledger.take(1));
  };
  take_and_commit();
  EXPECT_EQ(ledger.leases().size(), 3U);
  ledger.want(5);
  take_and_commit();
  take_and_commit();
  EXPECT_EQ(ledger.leases().size(), 5U);
}

TEST_P(SampleLedgerConformance, IsDoneAfterAllEpochs) {
  const auto job = make_job(2);
  job->train();
  for (const auto& ledger : job->ledgers) {
    EXPECT_TRUE(ledger->take()->empty());
    EXPECT_TRUE(ledger->is_done());
    EXPECT_EQ(ledger->epoch(), 2U);
    EXPECT_EQ(ledger->taken(), 0U);
    EXPECT_OK(ledger->wait(deadline_in(0s)));
  }
}

TEST_P(SampleLedgerConformance, RangesHaveTheSamplesOfTheDataSet) {
  data_.shuffle = Shuffle::kSamples;
  const auto job = make_job(1);
  const SampleLedger& ledger = *job->ledgers[0];
  EXPECT_EQ(ledger.samples(), 103U);
  const std::vector<SampleRange> some = {{10, 3, 6}, {1, 10, 20}};
  ASSERT_OK_AND_ASSIGN(auto indices, ledger.sample_indices(some));
  std::sort(indices.begin() + 3, indices.end());
  EXPECT_EQ(std::vector(indices.begin() + 3, indices.end()),
            (std::vector<uint64_t>{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_TRUE(std::all_of(indices.begin(), indices.begin() + 3, [](auto i) { return i >= 100; }));
  for (const SampleRange& wrong : {SampleRange{11, 0, 1}, {0, 5, 15}, {0, 4, 3}}) {
    EXPECT_FAILS(ledger.sample_indices(std::span(&wrong, 1)), StatusCode::kInvalidArgument,
                 "within one epoch");
  }
}

TEST_P(SampleLedgerConformance, RefusesOptionsThatMakeNoSense) {
  const auto job = make_job(0);
  for (const auto& [change, text] :
       std::vector<std::pair<std::function<void(LedgerOptions&)>, const char*>>{
           {[](auto& o) { o.samples = 0; }, "samples is 0"},
           {[](auto& o) { o.partition_samples = 0; }, "partition_samples is 0"},
           {[](auto& o) { o.epochs = (uint64_t{1} << 31) + 1; }, "epochs is"},
           {[](auto& o) { o.window_partitions = 2; }, "window_partitions is 2"},
           {[](auto& o) { o.batch_samples = 8; }, "no effect with SampleOrder::kOnDemand"}}) {
    LedgerOptions changed = data_;
    change(changed);
    EXPECT_FAILS(job->make(changed, {}), StatusCode::kInvalidArgument, text);
  }
}

TEST_P(SampleLedgerConformance, RefusesTheCallsOfOtherLedgers) {
  const auto job = make_job(1);
  SampleLedger& ledger = *job->ledgers[0];
  EXPECT_EQ(ledger.participant() != nullptr, is_session());
  EXPECT_EQ(ledger.save().ok(), is_session() || is_store());
  EXPECT_EQ(ledger.batch_samples(), 0U);
  EXPECT_TRUE(ledger.shares().empty());
  if (is_store()) return;
  EXPECT_FAILS(ledger.commit(), StatusCode::kInvalidArgument, "not in a store");
  EXPECT_FAILS(ledger.leave(), StatusCode::kInvalidArgument, "not in a store");
}

template <class Made>
Committer committer(const char* name) {
  return {name, [](const LedgerOptions& data) { return std::make_unique<Made>(data); }};
}

INSTANTIATE_TEST_SUITE_P(Committers, SampleLedgerConformance,
                         ::testing::Values(committer<SessionJob>("session"),
                                           committer<StoreJob>("store"),
                                           committer<PushJob>("push")),
                         [](const auto& test) { return test.param.name; });

// Tests a ledger over each store, however the store reports a conflict.
using StoreLedgerConformance = testing::OverEachStore;

struct Commits {
  std::mutex mutex;
  std::map<uint64_t, CommittedStep> reported;
  std::atomic<int> puts = 0;
  std::atomic<int> conflicts = 0;
  std::atomic<int> lists = 0;
  uint64_t count = 0;
  uint64_t repeated = 0;
};

void train(Store& store, const std::string& id, const LedgerOptions& data, Commits& commits) {
  testing::CountingStore counting(store);
  StoreLedgerOptions options;
  options.member.on_stable = [&commits](const CommittedStep& step) {
    const std::lock_guard lock(commits.mutex);
    EXPECT_EQ(commits.reported.try_emplace(step.step, step).first->second, step);
  };
  options.id = id;
  options.lease = 60s;  // no member expires here, however slow the machine is
  ASSERT_OK_AND_ASSIGN(const auto ledger, make_store_ledger(data, options, counting));
  uint64_t count = 0;
  while (!ledger->is_done()) {
    ASSERT_OK_AND_ASSIGN(const auto ranges, ledger->take(4));
    if (ranges.empty()) ASSERT_OK(ledger->wait(deadline_in(60s)));
    ASSERT_OK(ledger->commit());
    if (!ranges.empty()) ++count;
  }
  const std::lock_guard lock(commits.mutex);
  commits.count += count;
  commits.repeated = ledger->repeated();
  commits.puts += counting.puts;
  commits.conflicts += counting.conflicts;
  commits.lists += counting.lists;
}

TEST_P(StoreLedgerConformance, WorkersShareEachEpoch) {
  const LedgerOptions data = {.samples = 240, .partition_samples = 16, .epochs = 2};
  Commits commits;
  {
    std::vector<std::jthread> workers;
    for (const char* id : {"a", "b", "c"}) {
      Store& store = *id == 'a' ? first_ : second_;
      workers.emplace_back([&, id] { train(store, id, data, commits); });
    }
  }
  data::Audit audit({.samples = data.samples, .partition_samples = data.partition_samples}, 2);
  for (const auto& [number, step] : commits.reported) audit.add(step, "a worker");
  const CommitAudit made = audit.finish({.complete = true});
  EXPECT_EQ(made.first_problems, std::vector<std::string>());
  EXPECT_EQ(made.samples, 2 * data.samples);
  EXPECT_EQ(commits.repeated, 0U);
  EXPECT_EQ(commits.count, commits.reported.size());
  const auto per_commit = [&](int count) {
    return std::to_string(static_cast<double>(count) / static_cast<double>(commits.count));
  };
  RecordProperty("attempts_per_commit", per_commit(commits.puts));
  RecordProperty("conflicts_per_commit", per_commit(commits.conflicts));
  RecordProperty("reads_per_commit", per_commit(commits.lists));
}

INSTANTIATE_TEST_SUITE_P(BackEnds, StoreLedgerConformance, testing::all_back_ends(),
                         testing::name_of);

}  // namespace
}  // namespace ffdl
