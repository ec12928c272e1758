#include "ffdl/data/data_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "data/numbered_source.h"
#include "data/pipeline_job.h"
#include "ffdl/data/sample_ledger.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::number_of;
using testing::NumberedSource;
using Job = testing::PipelineJob;
using ::testing::TestWithParam;

struct Case {
  SampleOrder order;
  int threads;
  size_t numbers = 1;  // per sample
};

class DataPipelineWorlds : public TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Orders, DataPipelineWorlds,
                         ::testing::Values(Case{SampleOrder::kOnDemand, 0},
                                           Case{SampleOrder::kOnDemand, 2},
                                           Case{SampleOrder::kOnDemand, 0, 512},
                                           Case{SampleOrder::kGlobal, 0},
                                           Case{SampleOrder::kGlobal, 1}));

// Members join and leave, steps are repeated, states are taken back. The samples of take() are
// delivered, and each once per epoch.
TEST_P(DataPipelineWorlds, DeliversWhatTheLedgerSays) {
  for (uint64_t seed = 0; seed < 15; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t bound) { return random() % bound; };
    const NumberedSource source(200 + below(300), GetParam().numbers);
    LedgerOptions ledger = {.partition_samples = 1 + below(60),
                            .epochs = 3,
                            .seed = seed,
                            .shuffle = static_cast<Shuffle>(below(3)),
                            .order = GetParam().order};
    if (ledger.shuffle == Shuffle::kSamples) ledger.window_partitions = 1 + below(6);
    if (ledger.order == SampleOrder::kGlobal) ledger.batch_samples = 1 + below(40);
    Job job(source, ledger,
            {.threads = GetParam().threads,
             .read_ahead_bytes = 8 * below(200),
             .contiguous = below(2) == 0});
    if (below(2) == 0) job.use_own_memory();
    job.add();
    job.announce();
    while (!job.is_done() && !HasFatalFailure()) {
      const uint64_t what = below(12);
      if (what == 0 && job.members().size() < 5) job.add();
      if (what == 1 && job.members().size() > 1) job.remove(below(job.members().size()));
      if (what == 2) {  // a step that is not committed
        DataBatch batch;
        ASSERT_OK(job.members()[0]->pipeline->next(batch, 7));
      }
      if (what < 3) job.announce();
      job.step(1 + below(30));
    }
    EXPECT_EQ(job.used().size(), 3 * source.samples()) << "seed " << seed;
    for (const auto& [sample, times] : job.used()) {
      ASSERT_EQ(times, 1) << "sample " << sample.second << " of epoch " << sample.first;
    }
  }
}

// Runs the reference: 10,007 samples and two members, in step or not. A third one joins in the
// middle of the epoch, or one dies there in a step while the other goes on. store_ledger_test.cc
// and slot_ledger_test.cc run it without a session.
TEST_P(DataPipelineWorlds, NoneOfTheReferenceIsLostOrRepeated) {
  for (const auto& [dies, in_step] :
       {std::pair(false, true), {false, false}, {true, true}, {true, false}}) {
    const NumberedSource source(10'007, GetParam().numbers);
    LedgerOptions ledger = {.partition_samples = 256,
                            .seed = 3,
                            .shuffle = Shuffle::kSamples,
                            .order = GetParam().order};
    if (ledger.order == SampleOrder::kGlobal) ledger.batch_samples = 64;
    Job job(source, ledger, {.threads = GetParam().threads});
    if (GetParam().numbers > 1) job.use_own_memory();
    if (!in_step) job.go_out_of_step();
    job.add();
    job.add();
    job.announce();
    while (job.used().size() < 5'000) job.step(32);
    if (dies) {
      for (auto& member : job.members()) ASSERT_OK(member->pipeline->next(member->batch, 32));
      job.remove(1);
    } else {
      job.add();
    }
    job.announce();
    while (!job.is_done()) job.step(32);
    EXPECT_EQ(job.used().size(), 10'007U);
    for (const auto& [sample, times] : job.used()) EXPECT_EQ(times, 1) << sample.second;
  }
}

class DataPipelineTest : public ::testing::Test {
 protected:
  // Returns a job of one member, without shuffling.
  std::unique_ptr<Job> job(const DataPipelineOptions& options) {
    auto made = std::make_unique<Job>(
        source_, LedgerOptions{.partition_samples = 100, .epochs = 2, .shuffle = Shuffle::kNone},
        options);
    made->add();
    made->announce();
    return made;
  }
  NumberedSource source_{1000};
};

TEST_F(DataPipelineTest, ErrorsComeFromNextAndAreNotForEver) {
  for (const int threads : {0, 1}) {
    const auto made = job({.threads = threads});
    auto& [self, ledger, pipeline, batch, memory] = *made->members()[0];
    source_.fails_at = 7;
    EXPECT_FAILS(pipeline->next(batch, 10), StatusCode::kUnavailable, "the disk is away");
    EXPECT_FAILS(pipeline->next(batch, 10), StatusCode::kUnavailable, "the disk is away");
    source_.fails_at = 5000;
    ASSERT_OK(pipeline->next(batch, 10));
    EXPECT_EQ(batch.ranges, (std::vector<SampleRange>{{0, 0, 10}}));
    EXPECT_EQ(number_of(batch.samples[9]), 9U);
  }
}

TEST_F(DataPipelineTest, ReadsAheadWhatTheLedgerLeases) {
  const auto made = job({.threads = 1});
  // The first step has one partition, the second has the wanted number.
  made->step(10);
  made->step(10);
  const DataPipeline& pipeline = *made->members()[0]->pipeline;
  const uint64_t waited = pipeline.stats().waited;
  ASSERT_TRUE(comes_true([&] { return pipeline.stats().blocks >= 2; }));
  made->step(80);
  made->step(50);
  EXPECT_LE(pipeline.stats().waited, waited + 1);
  EXPECT_EQ(made->members()[0]->batch.indices.front(), 100U);
}

// Returns three members of one order, 30 samples to a step. The second member's pipeline has read
// ahead when this returns.
std::unique_ptr<Job> job_of_one_order(const NumberedSource& source) {
  auto made = std::make_unique<Job>(source,
                                    LedgerOptions{.partition_samples = 100,
                                                  .epochs = 2,
                                                  .shuffle = Shuffle::kSamples,
                                                  .order = SampleOrder::kGlobal,
                                                  .batch_samples = 30},
                                    DataPipelineOptions{.threads = 1});
  for (int i = 0; i < 3; ++i) made->add();
  made->announce();
  made->step(30);
  const DataPipeline& pipeline = *made->members()[1]->pipeline;
  EXPECT_TRUE(comes_true([&] { return pipeline.stats().blocks >= 12; }));
  return made;
}

TEST_F(DataPipelineTest, ReadsAheadInOneOrderByAForecast) {
  const auto made = job_of_one_order(source_);
  const DataPipeline& pipeline = *made->members()[1]->pipeline;
  const uint64_t waited = pipeline.stats().waited;
  for (int i = 0; i < 5; ++i) made->step(30);
  EXPECT_EQ(pipeline.stats().waited, waited);
  EXPECT_EQ(pipeline.stats().not_needed, 0U);
}

// The first member leaves and another one joins, so that the second has another part of each step.
TEST_F(DataPipelineTest, AForecastThatDoesNotComeTrueIsReadForNothing) {
  const auto made = job_of_one_order(source_);
  const DataPipeline& pipeline = *made->members()[1]->pipeline;
  made->remove(0);
  made->add();
  made->announce();
  made->step(30);
  EXPECT_GT(pipeline.stats().not_needed, 0U);
  while (!made->is_done()) made->step(30);
  EXPECT_EQ(made->used().size(), 2000U);
  for (const auto& [sample, times] : made->used()) EXPECT_EQ(times, 1) << sample.second;
}

TEST_F(DataPipelineTest, WhatFailsAheadIsAnErrorOfItsOwnStep) {
  for (const SampleOrder order : {SampleOrder::kGlobal, SampleOrder::kOnDemand}) {
    LedgerOptions ledger = {.partition_samples = 1000, .shuffle = Shuffle::kNone, .order = order};
    if (order == SampleOrder::kGlobal) ledger.batch_samples = 10;
    Job made(source_, ledger, {.threads = 1});
    made.add();
    made.announce();
    auto& [self, first, pipeline, batch, memory] = *made.members()[0];
    source_.fails_at = 25;
    made.step(10);
    ASSERT_FALSE(HasFatalFailure());
    while (pipeline->stats().blocks < 2) std::this_thread::yield();
    made.step(10);
    EXPECT_FAILS(pipeline->next(batch, 10), StatusCode::kUnavailable, "the disk is away");
    source_.fails_at = 5000;
    while (!made.is_done()) made.step(10);
    EXPECT_EQ(made.used().size(), 1000U);
  }
}

// A user's ledger that holds and takes arbitrary ranges, the same in each step.
class LeapingLedger final : public SampleLedger {
 public:
  LeapingLedger(std::vector<SampleRange> leases, std::vector<SampleRange> taken)
      : leases_(std::move(leases)), taken_(std::move(taken)) {}

  Result<std::vector<SampleRange>> take(uint64_t) override { return taken_; }
  uint64_t taken() const override {
    uint64_t sum = 0;
    for (const SampleRange& range : taken_) sum += range.end - range.begin;
    return sum;
  }
  const std::vector<SampleRange>& leases() const override { return leases_; }
  uint64_t samples() const override { return 1000; }
  uint64_t epoch() const override { return 0; }
  uint64_t committed() const override { return 0; }
  bool is_done() const override { return false; }
  Result<std::vector<uint64_t>> sample_indices(std::span<const SampleRange> ranges) const override {
    std::vector<uint64_t> indices;
    for (const SampleRange& range : ranges) {
      for (uint64_t i = range.begin; i < range.end; ++i) indices.push_back(i);
    }
    return indices;
  }

 private:
  const std::vector<SampleRange> leases_;
  const std::vector<SampleRange> taken_;
};

// All of the data is one block, which cannot be read as a whole.
TEST_F(DataPipelineTest, PartsOfABlockThatFailsAreReadByThemselves) {
  for (const int threads : {0, 1}) {
    LeapingLedger ledger({{0, 0, 100}}, {{0, 10, 20}, {0, 50, 60}, {0, 20, 30}});
    ASSERT_OK_AND_ASSIGN(const auto pipeline,
                         DataPipeline::create(source_, ledger, {.threads = threads}));
    DataBatch batch;
    for (const uint64_t needed : {15, 55, 25}) {
      source_.fails_at = needed;
      EXPECT_FAILS(pipeline->next(batch), StatusCode::kUnavailable, "the disk is away");
    }
    source_.fails_at = 35;
    ASSERT_OK(pipeline->next(batch));
    ASSERT_EQ(batch.samples.size(), 30U);
    for (uint64_t i = 0; i < 10; ++i) {
      EXPECT_EQ(number_of(batch.samples[i]), 10 + i);
      EXPECT_EQ(number_of(batch.samples[10 + i]), 50 + i);
      EXPECT_EQ(number_of(batch.samples[20 + i]), 20 + i);
    }
    source_.fails_at = 5000;
    ASSERT_OK(pipeline->next(batch));
    EXPECT_EQ(number_of(batch.samples[29]), 29U);
  }
}

// The read that replaces a failed block ends at the beginning of the next block.
TEST_F(DataPipelineTest, ABlockThatFailsMayOverlapOthers) {
  LeapingLedger ledger({{0, 0, 100}, {0, 20, 30}, {0, 40, 70}}, {{0, 10, 60}});
  for (const uint64_t fails_at : {90, 65, 35}) {
    source_.fails_at = fails_at;
    ASSERT_OK_AND_ASSIGN(const auto pipeline,
                         DataPipeline::create(source_, ledger, {.threads = 1}));
    DataBatch batch;
    const Status status = pipeline->next(batch);
    if (fails_at < 60) {
      EXPECT_FAILS(status, StatusCode::kUnavailable, "the disk is away");
      continue;
    }
    ASSERT_OK(status);
    ASSERT_EQ(batch.samples.size(), 50U);
    for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(number_of(batch.samples[i]), 10 + i);
  }
}

// A ledger whose forecast contains held ranges, used ranges, overlapping ranges, and nonexistent
// ones.
class MisleadingLedger final : public SampleLedger {
 public:
  explicit MisleadingLedger(SampleLedger& truth) : truth_(truth) {}

  Result<std::vector<SampleRange>> take(uint64_t count) override { return truth_.take(count); }
  uint64_t taken() const override { return truth_.taken(); }
  const std::vector<SampleRange>& leases() const override { return truth_.leases(); }
  std::vector<std::vector<SampleRange>> forecast(size_t steps) override {
    ++asked;
    auto made_up = truth_.forecast(steps);
    made_up.push_back(truth_.leases());
    made_up.push_back({{0, 0, 100}, {0, 95, 105}, {0, 90, 20}, {7, 0, 100}});
    made_up.push_back({{99, 0, 10}, {1, 0, ~uint64_t{0}}, {2, 90, 95}, {2, 30, 94}});
    std::swap(made_up.front(), made_up.back());
    return made_up;
  }
  uint64_t samples() const override { return truth_.samples(); }
  uint64_t epoch() const override { return truth_.epoch(); }
  uint64_t committed() const override { return truth_.committed(); }
  bool is_done() const override { return truth_.is_done(); }
  Result<std::vector<uint64_t>> sample_indices(std::span<const SampleRange> ranges) const override {
    return truth_.sample_indices(ranges);
  }

  int asked = 0;

 private:
  SampleLedger& truth_;
};

TEST_F(DataPipelineTest, AForecastOfNonsenseDoesNoHarm) {
  for (const int threads : {0, 1, 3}) {
    ASSERT_OK_AND_ASSIGN(const auto ledger, make_session_ledger({.samples = 1000,
                                                                 .partition_samples = 100,
                                                                 .shuffle = Shuffle::kSamples,
                                                                 .order = SampleOrder::kGlobal,
                                                                 .batch_samples = 13}));
    World world;
    world.members = {{"a", 1}};
    ledger->participant()->world_changed(world);
    MisleadingLedger misleading(*ledger);
    ASSERT_OK_AND_ASSIGN(const auto pipeline,
                         DataPipeline::create(source_, misleading, {.threads = threads}));
    std::vector<std::byte> record(ledger->participant()->record_bytes());
    std::vector<uint64_t> used;
    DataBatch batch;
    for (uint64_t step = 1; !ledger->is_done(); ++step) {
      ASSERT_OK(pipeline->next(batch));
      ASSERT_OK_AND_ASSIGN(const auto due, ledger->sample_indices(batch.ranges));
      ASSERT_EQ(batch.samples.size(), due.size());
      for (size_t i = 0; i < due.size(); ++i) ASSERT_EQ(number_of(batch.samples[i]), due[i]);
      used.insert(used.end(), due.begin(), due.end());
      ledger->participant()->write_record(record);
      ledger->participant()->applied(step, StepRecords(record, record.size(), record.size()));
    }
    std::sort(used.begin(), used.end());
    ASSERT_EQ(used.size(), 1000U);
    for (uint64_t i = 0; i < used.size(); ++i) ASSERT_EQ(used[i], i);
    EXPECT_EQ(misleading.asked > 0, threads > 0);
  }
}

TEST_F(DataPipelineTest, WithoutThreadsOnlyWhatIsNeededIsRead) {
  const auto made = job({.threads = 0});
  made->step(10);
  EXPECT_EQ(source_.reads, 1);
  made->step(90);
  EXPECT_EQ(source_.reads, 1);
  made->step(1);
  EXPECT_EQ(source_.reads, 2);
  EXPECT_EQ(made->members()[0]->pipeline->stats().blocks, 2U);
  EXPECT_EQ(made->members()[0]->pipeline->stats().waited, 2U);
}

TEST_F(DataPipelineTest, ABatchCanBeOneBuffer) {
  const auto made = job({.threads = 0, .contiguous = true});
  made->step(10);
  made->step(95);  // from two partitions
  const DataBatch& batch = made->members()[0]->batch;
  ASSERT_EQ(batch.bytes.size(), 95 * sizeof(uint64_t));
  EXPECT_EQ(batch.samples[0].data(), batch.bytes.data());
  for (size_t i = 0; i < 95; ++i) {
    EXPECT_EQ(number_of(batch.bytes.subspan(i * sizeof(uint64_t))), 10 + i);
  }
}

TEST_F(DataPipelineTest, CorruptSamplesAreLeftOutAndCounted) {
  for (const bool contiguous : {false, true}) {
    source_.skips_at = 3;
    const auto made = job({.threads = 0, .contiguous = contiguous});
    auto& [self, ledger, pipeline, batch, memory] = *made->members()[0];
    ASSERT_OK(pipeline->next(batch, 5));
    EXPECT_EQ(batch.skipped, 1U);
    EXPECT_THAT(batch.indices, ::testing::ElementsAre(0, 1, 2, 4));
    EXPECT_EQ(number_of(batch.samples[3]), 4U);
    EXPECT_EQ(ledger->taken(), 5U);
    EXPECT_EQ(batch.bytes.size(), contiguous ? 32U : 0U);
    std::vector<std::byte> record(ledger->participant()->record_bytes());
    ledger->participant()->write_record(record);
    ledger->participant()->applied(1, StepRecords(record, record.size(), record.size()));
    source_.skips_at = 103;
    ASSERT_OK(pipeline->next(batch, 105));  // and from the next partition
    EXPECT_EQ(batch.skipped, 1U);
    ASSERT_EQ(batch.indices.size(), 104U);
    for (size_t i = 0; i < 104; ++i) EXPECT_EQ(number_of(batch.samples[i]), batch.indices[i]);
  }
}

TEST_F(DataPipelineTest, RefusesWhatDoesNotFit) {
  ASSERT_OK_AND_ASSIGN(const auto other,
                       make_session_ledger({.samples = 999, .partition_samples = 10}));
  EXPECT_FAILS(DataPipeline::create(source_, *other, {}), StatusCode::kInvalidArgument,
               "the ledger is of 999 samples and the data source has 1000");
  ASSERT_OK_AND_ASSIGN(const auto ledger,
                       make_session_ledger({.samples = 1000, .partition_samples = 10}));
  EXPECT_FAILS(DataPipeline::create(source_, *ledger, {.threads = -1}),
               StatusCode::kInvalidArgument, "threads is -1");
}

// A user's source that omits a sample.
class ForgetfulSource : public NumberedSource {
 public:
  using NumberedSource::NumberedSource;
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    return NumberedSource::read(indices.first(indices.size() - 1), batch);
  }
};

// Batches are within a block, across blocks and across partitions, the last ones short.
TEST(DataPipelineOfFiles, MappedRecordsComeAsCopiedOnesDo) {
  TempFolder folder;
  std::string bytes;
  for (uint32_t i = 0; i < 1000; ++i) bytes.append(reinterpret_cast<const char*>(&i), sizeof i);
  const std::string path = folder.write("records", bytes);
  for (const int threads : {0, 2}) {
    struct Reading {
      std::unique_ptr<DataSource> source;
      std::unique_ptr<SampleLedger> ledger;
      std::unique_ptr<DataPipeline> pipeline;
      DataBatch batch{};
      std::vector<std::vector<std::byte>> samples{};
    };
    const auto begin = [&](bool access) {
      Reading reading;
      reading.source =
          std::move(open_records({path}, {.record_bytes = 4}, {.mapped = access})).value();
      reading.ledger =
          std::move(make_session_ledger(
                        {.samples = 1000, .partition_samples = 64, .shuffle = Shuffle::kSamples}))
              .value();
      World world;
      world.members = {{"a", 1}};
      reading.ledger->participant()->world_changed(world);
      reading.pipeline =
          std::move(DataPipeline::create(*reading.source, *reading.ledger, {.threads = threads}))
              .value();
      return reading;
    };
    const auto next = [](Reading& reading, uint64_t step) {
      ASSERT_OK(reading.pipeline->next(reading.batch, 30));
      reading.samples.clear();
      for (const auto& sample : reading.batch.samples) {
        reading.samples.emplace_back(sample.begin(), sample.end());
      }
      std::vector<std::byte> record(reading.ledger->participant()->record_bytes());
      reading.ledger->participant()->write_record(record);
      reading.ledger->participant()->applied(step,
                                             StepRecords(record, record.size(), record.size()));
    };
    Reading copied = begin(false);
    Reading mapped = begin(true);
    for (uint64_t step = 1; !copied.ledger->is_done(); ++step) {
      next(copied, step);
      next(mapped, step);
      EXPECT_EQ(mapped.samples, copied.samples);
      EXPECT_TRUE(std::ranges::equal(mapped.batch.indices, copied.batch.indices));
      EXPECT_EQ(mapped.batch.samples.size(), mapped.batch.indices.size());
    }
    EXPECT_TRUE(mapped.ledger->is_done());
  }
}

TEST(DataPipelineOfAUser, ASourceMustGiveOneForEach) {
  const ForgetfulSource source(100);
  ASSERT_OK_AND_ASSIGN(const auto ledger,
                       make_session_ledger({.samples = 100, .partition_samples = 10}));
  World world;
  world.members = {{"a", 1}};
  ledger->participant()->world_changed(world);
  ASSERT_OK_AND_ASSIGN(const auto pipeline, DataPipeline::create(source, *ledger, {.threads = 0}));
  DataBatch batch;
  EXPECT_FAILS(pipeline->next(batch), StatusCode::kInvalidArgument,
               "read 10 samples: the data source returned 9");
}

}  // namespace
}  // namespace ffdl
