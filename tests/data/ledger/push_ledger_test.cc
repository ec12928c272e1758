#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "data/ledger_text.h"
#include "data/numbered_source.h"
#include "ffdl/data/commit_log.h"
#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"
#include "support/learners.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using data::testing::text_of;
using testing::attach;
using testing::create_server;

// Runs learners in this process. A gradient is one for each of its samples, so that the weights
// count how often each was used.
class PushLedgerTest : public ::testing::Test {
 protected:
  // The server folds nothing until it is started, so a second gradient stays at its learner.
  std::unique_ptr<ParameterServer> create(Synchrony synchrony = Synchrony::kAsync,
                                          uint32_t ranges_max = 64) {
    ParameterServerOptions options;
    options.ranges_max = ranges_max;
    options.parameters = data_.samples;
    options.rule.learning_rate = 1;
    options.partitions = 40;
    options.synchrony = synchrony;
    return create_server(options);
  }
  std::unique_ptr<SampleLedger> ledger_of(Learner& learner) { return ledger_of(learner, data_); }
  static std::unique_ptr<SampleLedger> ledger_of(Learner& learner, const LedgerOptions& options,
                                                 const LedgerMemberOptions& member = {}) {
    auto created = make_push_ledger(options, learner, member);
    EXPECT_OK(created);
    return std::move(created).value();
  }
  // Pushes the samples of take(), and returns their ranges.
  static std::string train(Learner& learner, SampleLedger& ledger, uint64_t count) {
    const auto ranges = ledger.take(count);
    EXPECT_OK(ranges);
    const auto slot = learner.gradient_slot(deadline_in(60s));
    EXPECT_OK(slot);
    std::fill(slot->begin(), slot->end(), 0.0F);
    const auto indices = ledger.sample_indices(*ranges);
    EXPECT_OK(indices);
    for (const uint64_t index : *indices) (*slot)[index] += 1;
    EXPECT_OK(learner.push(Gradient::slot(), *ranges));
    return text_of(*ranges);
  }
  // Trains until all epochs are over.
  static void train_all(const ParameterServer& server, const LedgerOptions& options, uint64_t count,
                        const LedgerMemberOptions& member = {}) {
    const auto learner = attach(server);
    const auto ledger = ledger_of(*learner, options, member);
    const testing::NumberedSource source(options.samples);
    const auto pipeline = DataPipeline::create(source, *ledger, {});
    ASSERT_OK(pipeline);
    DataBatch batch;
    while (true) {
      ASSERT_OK((*pipeline)->next(batch, count));
      if (ledger->is_done()) break;
      if (batch.ranges.empty()) {
        ASSERT_OK(ledger->wait(deadline_in(60s)));
        continue;
      }
      ASSERT_OK_AND_ASSIGN(const auto slot, learner->gradient_slot(deadline_in(60s)));
      std::fill(slot.begin(), slot.end(), 0.0F);
      for (const auto sample : batch.samples) slot[testing::number_of(sample)] += 1;
      ASSERT_OK(learner->push(Gradient::slot(), batch.ranges));
    }
    EXPECT_OK(learner->detach(deadline_in(60s)));
  }
  // Trains until `is_time`, and ends with a gradient that it did not push.
  static void train_and_die(const ParameterServer& server, const LedgerOptions& options,
                            uint64_t count, const std::function<bool()>& is_time) {
    const auto learner = attach(server);
    const auto ledger = ledger_of(*learner, options);
    while (!is_time()) {
      if (ledger->take(count)->empty()) {
        ASSERT_OK(ledger->wait(deadline_in(60s)));
      } else {
        train(*learner, *ledger, count);
      }
    }
    ASSERT_OK(ledger->take(count));
    ASSERT_OK_AND_ASSIGN(const auto slot, learner->gradient_slot(deadline_in(60s)));
    std::fill(slot.begin(), slot.end(), 1.0F);
  }
  void expect_each_used(ParameterServer& server, float times) {
    ASSERT_OK(server.stop());
    for (uint64_t i = 0; i < data_.samples; ++i) ASSERT_EQ(server.weights()[i], -times) << i;
  }
  LedgerOptions data_ = {
      .samples = 103, .partition_samples = 10, .epochs = 3, .shuffle = Shuffle::kNone};
};

TEST_F(PushLedgerTest, LearnersShareEpochsAndTheirLogsAreWhole) {
  data_.shuffle = Shuffle::kSamples;
  data_.window_partitions = 3;
  const TempFolder folder;
  const auto server = create();
  ASSERT_OK(server->start());
  std::vector<std::string> logs;
  std::vector<std::thread> learners;
  for (int i = 0; i < 3; ++i) {
    logs.push_back(folder.path() + "/" + std::to_string(i));
    learners.emplace_back([&, this, path = logs.back()] {
      LedgerMemberOptions member;
      ASSERT_OK_AND_ASSIGN(const auto log, CommitLog::open(path, data_));
      member.on_stable = [&](const CommittedStep& step) { log->write(step); };
      train_all(*server, data_, 3, member);
      EXPECT_OK(log->status());
    });
  }
  for (std::thread& learner : learners) learner.join();
  expect_each_used(*server, 3);
  ASSERT_OK_AND_ASSIGN(const CommitAudit audit, audit_commit_logs(logs, {.complete = true}));
  EXPECT_EQ(audit.problems, 0U) << audit.first_problems.front();
  EXPECT_EQ(audit.samples, 309U);
}

// Runs the reference of data_pipeline_test.cc: 10,007 samples and two learners out of step. A third
// one joins in the middle of the epoch, or one dies there with an unpushed gradient.
TEST_F(PushLedgerTest, NoneOfTheReferenceIsLostOrRepeated) {
  data_ = {.samples = 10'007, .partition_samples = 256, .seed = 3, .shuffle = Shuffle::kSamples};
  for (const bool dies : {false, true}) {
    const auto server = create();
    ASSERT_OK(server->start());
    const auto is_half_done = [&] {
      uint64_t samples = 0;
      for (const PartitionProgress& one : server->stats().partitions) samples += one.samples;
      return samples >= 5'000;
    };
    std::vector<std::thread> learners;
    learners.emplace_back([&] { train_all(*server, data_, 32); });
    if (dies) {
      train_and_die(*server, data_, 17, is_half_done);
    } else {
      learners.emplace_back([&] { train_all(*server, data_, 17); });
      while (!is_half_done()) std::this_thread::yield();
      learners.emplace_back([&] { train_all(*server, data_, 64); });
    }
    for (std::thread& learner : learners) learner.join();
    expect_each_used(*server, 1);
  }
}

// A round needs a gradient of each participant. A learner that waits for the end of an epoch does
// not participate.
TEST_F(PushLedgerTest, LearnersInRoundsDoNotWaitForWhoWaits) {
  data_ = {.samples = 31, .partition_samples = 10, .epochs = 3};
  for (const Synchrony synchrony : {Synchrony::kBulk, Synchrony::kStale}) {
    const auto server = create(synchrony);
    ASSERT_OK(server->start());
    std::vector<std::thread> learners;
    for (int i = 0; i < 3; ++i) learners.emplace_back([&] { train_all(*server, data_, 2); });
    for (std::thread& learner : learners) learner.join();
    ASSERT_OK(server->stop());
    uint64_t samples = 0;
    for (const PartitionProgress& partition : server->stats().partitions) {
      samples += partition.samples;
      EXPECT_EQ(partition.repeated + partition.missing, 0U);
    }
    EXPECT_EQ(samples, 93U);
  }
}

TEST_F(PushLedgerTest, ABatchIsTheSameUntilItIsPushed) {
  const auto server = create();
  const auto learner = attach(*server);
  const auto ledger = ledger_of(*learner);
  EXPECT_EQ(text_of(*ledger->take(4)), "0:0-4");
  EXPECT_EQ(ledger->taken(), 4U);
  EXPECT_EQ(text_of(*ledger->take(12)), "0:0-10 1:0-2");
  EXPECT_EQ(ledger->taken(), 12U);
  const std::vector<float> gradient(data_.samples);
  ASSERT_OK(learner->push(gradient, {0, 0, 7}));
  EXPECT_EQ(ledger->taken(), 5U);
  EXPECT_EQ(text_of(*ledger->take(4)), "0:7-10 1:0-1");
  EXPECT_EQ(text_of(ledger->leases()), "0:7-10 1:0-10 2:0-10");
  EXPECT_EQ(ledger->committed(), 7U);
  EXPECT_EQ(ledger->epoch(), 0U);
}

TEST_F(PushLedgerTest, WhoDiesLeavesTheRestOfItsPartition) {
  const auto server = create();
  auto dying = attach(*server, 0);
  auto of_it = ledger_of(*dying);
  EXPECT_EQ(train(*dying, *of_it, 3), "0:0-3");  // published, and not folded
  EXPECT_EQ(train(*dying, *of_it, 3), "0:3-6");  // void when it dies
  const auto learner = attach(*server, 1);
  const auto ledger = ledger_of(*learner);
  EXPECT_EQ(train(*learner, *ledger, 4), "2:0-4");  // 0 and 1 are held
  of_it.reset();
  dying.reset();
  const auto successor = attach(*server, 0);  // alive, in the slot of the dead learner
  EXPECT_EQ(train(*learner, *ledger, 6), "2:4-10");
  EXPECT_EQ(text_of(*ledger->take(12)), "3:0-10 1:0-2") << "0 is not folded";
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  ASSERT_OK(successor->flush(deadline_in(60s)));
  EXPECT_EQ(text_of(*ledger->take(40)), "3:0-10 1:0-10 4:0-10 0:3-10 5:0-3");
}

TEST_F(PushLedgerTest, APartitionIsKeptUntilWhatWasPushedOfItIsPublished) {
  data_.samples = 20;
  const auto server = create();
  const auto first = attach(*server);
  const auto of_first = ledger_of(*first);
  const auto second = attach(*server);
  const auto of_second = ledger_of(*second);
  EXPECT_EQ(train(*first, *of_first, 4), "0:0-4");
  EXPECT_EQ(train(*second, *of_second, 10), "1:0-10");
  EXPECT_EQ(train(*first, *of_first, 6), "0:4-10");  // accumulated
  EXPECT_TRUE(of_first->take()->empty());
  EXPECT_TRUE(of_second->take()->empty()) << "nobody but the first sees that it is used";
  EXPECT_FAILS(of_second->wait(deadline_in(1ms)), StatusCode::kTimeout, "wait longer");
  ASSERT_OK(server->start());
  ASSERT_OK(of_first->wait(deadline_in(60s)));
  EXPECT_EQ(of_first->epoch(), 1U);
  ASSERT_OK(of_second->wait(deadline_in(60s)));
  EXPECT_EQ(of_second->epoch(), 1U);
}

TEST_F(PushLedgerTest, ALateServerIsWaitedForWhenNoMoreCanBeNamed) {
  const auto server = create(Synchrony::kAsync, 2);
  const auto learner = attach(*server);
  const auto ledger = ledger_of(*learner);
  EXPECT_EQ(train(*learner, *ledger, 40), "0:0-10 1:0-10");  // published
  EXPECT_EQ(train(*learner, *ledger, 4), "2:0-4");
  EXPECT_EQ(train(*learner, *ledger, 40), "2:4-10");
  EXPECT_EQ(train(*learner, *ledger, 40), "3:0-10");
  EXPECT_TRUE(ledger->take()->empty());
  EXPECT_FAILS(ledger->wait(deadline_in(1ms)), StatusCode::kTimeout, "wait for samples of epoch 0");
  ASSERT_OK(server->start());
  ASSERT_OK(ledger->wait(deadline_in(60s)));
  EXPECT_EQ(text_of(*ledger->take(10)), "4:0-10");
}

TEST_F(PushLedgerTest, ALedgerThatEndsGivesBackWhatItHolds) {
  const auto server = create();
  const auto first = attach(*server);
  auto of_first = ledger_of(*first);
  EXPECT_EQ(train(*first, *of_first, 3), "0:0-3");
  EXPECT_EQ(train(*first, *of_first, 3), "0:3-6");  // accumulated: partition 0 is kept
  of_first.reset();
  const auto second = attach(*server);
  const auto ledger = ledger_of(*second);
  EXPECT_EQ(text_of(*ledger->take(2)), "1:0-2");
}

// A learner that is killed between publication and log looks to the others like one without a log.
TEST_F(PushLedgerTest, WhatADeadLearnerDidNotTellIsTold) {
  data_ = {.samples = 6, .partition_samples = 3, .epochs = 2, .shuffle = Shuffle::kNone};
  const auto server = create();
  ASSERT_OK(server->start());
  const auto learner = attach(*server, 0);
  std::vector<std::string> told;
  LedgerMemberOptions member;
  const auto silent = ledger_of(*learner);
  EXPECT_EQ(train(*learner, *silent, 3), "0:0-3");
  const auto other = attach(*server, 7);
  member.on_stable = [&](const CommittedStep& step) {
    std::string text = std::to_string(step.step);
    for (const auto& part : step.parts) text += " " + part.member.id + " " + text_of({part.range});
    told.push_back(text);
  };
  const auto telling = ledger_of(*other, data_, member);
  EXPECT_EQ(told, std::vector<std::string>({"256 slot-0 0:0-3"})) << "when it is made";
  told.clear();
  EXPECT_EQ(train(*learner, *silent, 3), "1:0-3");
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(text_of(*telling->take(3)), "0:3-6");
  EXPECT_EQ(told, std::vector<std::string>({"512 slot-0 1:0-3"})) << "at the end of an epoch";
}

TEST_F(PushLedgerTest, APublicationOfTwoEpochsIsToldInTwoParts) {
  data_ = {.samples = 3, .partition_samples = 3, .epochs = 3};
  std::vector<SampleRange> told;
  LedgerMemberOptions member;
  member.on_stable = [&](const CommittedStep& step) {
    for (const auto& part : step.parts) told.push_back(part.range);
  };
  const auto server = create();
  const auto learner = attach(*server);
  const auto ledger = ledger_of(*learner, data_, member);
  const std::vector<float> gradient(data_.samples);
  ASSERT_OK(learner->push(gradient, {0, 2, 7}));
  ASSERT_OK(learner->push(gradient, {39, 0, 1}));  // valid for the server, but outside the data set
  ASSERT_OK(server->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(text_of(told), "0:2-3 0:3-6 0:6-7");
}

TEST_F(PushLedgerTest, RefusesWhatItCannotDo) {
  const auto server = create();
  ASSERT_OK(server->start());
  const auto learner = attach(*server);
  LedgerOptions many = data_;
  many.partition_samples = 2;
  EXPECT_FAILS(make_push_ledger(many, *learner), StatusCode::kInvalidArgument,
               "52 partitions, and the server has 40");
  LedgerOptions global = data_;
  global.order = SampleOrder::kGlobal;
  global.batch_samples = 8;
  EXPECT_FAILS(make_push_ledger(global, *learner), StatusCode::kInvalidArgument, "kOnDemand");
  EXPECT_FAILS(make_push_ledger({.samples = 0}, *learner), StatusCode::kInvalidArgument,
               "samples is 0");
  const auto ledger = ledger_of(*learner);
  ASSERT_OK_AND_ASSIGN(const auto ranges, ledger->take(5));
  const std::vector<float> gradient(data_.samples);
  ASSERT_OK(learner->start_push(gradient, ranges[0]));
  EXPECT_FAILS(ledger->take(5), StatusCode::kInvalidArgument, "finish_push");
  ASSERT_OK(learner->finish_push(deadline_in(60s)));
  EXPECT_EQ(text_of(*ledger->take(5)), "0:5-10");
  ASSERT_OK(learner->detach(deadline_in(60s)));
  EXPECT_FAILS(ledger->take(11), StatusCode::kCancelled, "detached");
}

}  // namespace
}  // namespace ffdl
