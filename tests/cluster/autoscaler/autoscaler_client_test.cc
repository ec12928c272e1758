#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "cluster/autoscaler/autoscaler.h"
#include "cluster/autoscaler/autoscaler_records.h"
#include "ffdl/cluster/autoscaler.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/session.h"
#include "ffdl/tuning/batch_size.h"
#include "support/small_model.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

class AutoscalerClientTest : public ::testing::Test {
 protected:
  AutoscalerClientTest() : store_(open_store("mem://", system_runtime()).value()) {}

  void answer(int workers, int64_t batch) {
    const std::vector<cluster::Answer> answers = {
        {1, {.name = "other", .workers = 7, .batch = 7}},
        {2, {.name = "job", .workers = workers, .batch = batch}}};
    ASSERT_OK(store_->put(cluster::kAnswers, encode(answers)));
  }

  const std::unique_ptr<Store> store_;
};

TEST_F(AutoscalerClientTest, SpeedsAreReadAsTheyWereTold) {
  const std::vector<StepMeasurement> told = {{1, 1, 64, 40, 0.5}, {2, 1, 64, 9, 9}};
  EXPECT_FAILS(read_speeds(*store_, "job"), StatusCode::kNotFound, "");
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, store_->grant_lease(60s));
  ASSERT_OK(publish_speeds(*store_, "job", told, lease));
  ASSERT_OK_AND_ASSIGN(const auto read, read_speeds(*store_, "job"));
  EXPECT_EQ(read, told);
  ASSERT_OK(store_->end_lease(lease));
  // the record ends with the job
  EXPECT_FAILS(read_speeds(*store_, "job"), StatusCode::kNotFound, "");
}

TEST_F(AutoscalerClientTest, RefusesWhatMakesNoSense) {
  EXPECT_FAILS(AutoscalerClient::open(*store_, system_runtime(), ""), StatusCode::kInvalidArgument,
               "name");
  EXPECT_FAILS(AutoscalerClient::open(*store_, system_runtime(), "a", 0s),
               StatusCode::kInvalidArgument, "an interval above 0");
  EXPECT_FAILS(publish_speeds(*store_, "", {}, kNoLease), StatusCode::kInvalidArgument, "its name");
}

// Records the samples of each step as the ledgers of all members report them.
class Steps {
 public:
  void add(const CommittedStep& step) {
    uint64_t samples = 0;
    for (const auto& part : step.parts) samples += part.range.end - part.range.begin;
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(samples_.emplace(step.step, samples).first->second, samples);
  }
  std::map<uint64_t, uint64_t> samples() {
    const std::lock_guard lock(mutex_);
    return samples_;
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> samples_;
};

// Trains as a member of a job with the batch size that the autoscaler wants. Ends after some steps
// with the last batch size.
Status train(Store& store, const std::string& id, uint64_t last_batch, Steps& steps,
             const std::function<void(uint64_t)>& stepped) {
  testing::SmallModel model(17);
  LedgerOptions data;
  data.samples = 1'000'000;
  data.partition_samples = 10'000;
  data.epochs = 0;
  LedgerMemberOptions member;
  member.on_stable = [&](const CommittedStep& step) { steps.add(step); };
  FFDL_ASSIGN_OR_RETURN(const auto ledger, make_session_ledger(data, member));
  FFDL_ASSIGN_OR_RETURN(const auto batch, BatchSizeController::create(8));
  FFDL_ASSIGN_OR_RETURN(const auto link,
                        AutoscalerClient::open(store, system_runtime(), "job", 5ms));
  SessionOptions options;
  options.self.id = id;
  options.membership.min_workers = 2;
  options.membership.heartbeat = 50ms;
  options.membership.lease = 3s;
  options.membership.gather = 50ms;
  options.participants = {ledger->participant(), batch.get()};
  options.verify_state = true;
  FFDL_ASSIGN_OR_RETURN(const auto session, Session::open(options, model, store));
  uint64_t end = ~uint64_t{0};
  while (session->step() < end) {
    model.compute(session->step());
    FFDL_RETURN_IF_ERROR(ledger->take(batch->share()).status());
    FFDL_ASSIGN_OR_RETURN(const StepResult result, session->end_step(ledger->taken()));
    if (result != StepResult::kContinue && result != StepResult::kWorldChanged) continue;
    if (session->world().rank == 0) {
      const JobAllocation wanted = link->wanted();
      if (wanted.batch > 0) {
        batch->want(static_cast<uint64_t>(wanted.batch), wanted.workers);
        stepped(static_cast<uint64_t>(wanted.batch));
      }
    }
    if (batch->samples() == last_batch) end = std::min(end, session->step() + 12);
  }
  return session->finish();
}

// Covers the path from the request to the step: the autoscaler decides size and batch, and the
// members follow.
TEST_F(AutoscalerClientTest, ARunningJobFollowsTheAutoscaler) {
  ASSERT_OK(offer_workers(*store_, "node", 2));
  ASSERT_OK_AND_ASSIGN(const auto ticket, JobTicket::enter(*store_, system_runtime(),
                                                           {"job", {{1, 1, 8}, {2, 1.9, 24}}}));
  const auto autoscaler = system_runtime().spawn("autoscaler", [&](const StopToken& stop) {
    EXPECT_FAILS(run_autoscaler(*store_, system_runtime(), {}, stop), StatusCode::kCancelled, "");
  });
  Steps steps;
  Status outcomes[2];
  const auto train_as = [&](const std::string& id) {
    return train(*store_, id, 24, steps, [](uint64_t wanted) { EXPECT_EQ(wanted, 24U); });
  };
  std::thread other([&] { outcomes[1] = train_as("b"); });
  outcomes[0] = train_as("a");
  other.join();
  EXPECT_OK(outcomes[0]);
  EXPECT_OK(outcomes[1]);
  EXPECT_EQ(steps.samples().rbegin()->second, 24U);
}

// The batch size changes while the job trains, at one step for all members, and no member stops.
TEST_F(AutoscalerClientTest, ARunningJobFollowsItsBatch) {
  Steps steps;
  answer(2, 24);
  const auto stepped = [&](uint64_t wanted) {
    if (wanted == 24) answer(2, 11);
  };
  Status outcomes[2];
  std::thread other([&] { outcomes[1] = train(*store_, "b", 11, steps, stepped); });
  outcomes[0] = train(*store_, "a", 11, steps, stepped);
  other.join();
  EXPECT_OK(outcomes[0]);
  EXPECT_OK(outcomes[1]);
  std::vector<uint64_t> batches;  // without repeats in a row
  uint64_t next = 1;
  for (const auto& [step, samples] : steps.samples()) {
    if (samples == 0) continue;
    EXPECT_GE(step, next) << "no step is missing";
    next = step + 1;
    if (batches.empty() || batches.back() != samples) batches.push_back(samples);
  }
  const std::set<uint64_t> known = {8, 11, 24};
  for (const uint64_t batch : batches) EXPECT_TRUE(known.contains(batch)) << batch;
  EXPECT_EQ(batches.back(), 11U);
  EXPECT_LE(batches.size(), 3U);
}

}  // namespace
}  // namespace ffdl
