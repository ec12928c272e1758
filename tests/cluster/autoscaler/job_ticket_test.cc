#include <gtest/gtest.h>

#include "cluster/autoscaler/autoscaler_records.h"
#include "ffdl/cluster/autoscaler.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

class JobTicketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_store("mem://", system_runtime());
    ASSERT_OK(opened);
    store_ = std::move(opened).value();
  }
  Result<std::unique_ptr<JobTicket>> enter(const std::string& job) {
    return JobTicket::enter(*store_, system_runtime(), {job, {{1, 1, 8}, {2, 1.9, 8}}});
  }
  Revision place_of(const std::string& job) const {
    return store_->get(cluster::key_of(cluster::kRequests, job))->revision;
  }
  void answer(const std::string& job, Revision place, JobAllocation allocation) {
    allocation.name = job;
    ASSERT_OK(
        store_->put(cluster::kAnswers, encode(std::vector<cluster::Answer>{{place, allocation}})));
  }

  std::unique_ptr<Store> store_;
};

TEST_F(JobTicketTest, MayListASizeTwiceThatLiesOtherwise) {
  const SizeOption together{.workers = 2, .value = 1.9, .nodes_max = 1};
  ASSERT_OK_AND_ASSIGN(const auto ticket, JobTicket::enter(*store_, system_runtime(),
                                                           {"a", {{1, 1}, {2, 1.5}, together}}));
  SizeOption wrong = together;
  wrong.nodes_max = -1;
  EXPECT_FAILS(JobTicket::enter(*store_, system_runtime(), {"b", {wrong}}),
               StatusCode::kInvalidArgument, "nodes_max -1");
  EXPECT_FAILS(JobTicket::enter(*store_, system_runtime(), {"b", {}}), StatusCode::kInvalidArgument,
               "no size");
}

TEST_F(JobTicketTest, WaitsForItsOwnAnswer) {
  ASSERT_OK_AND_ASSIGN(const auto ticket, enter("a"));
  EXPECT_FAILS(ticket->wait_until_admitted(deadline_in(1ms)), StatusCode::kTimeout, "");
  answer("a", 1, {.workers = 2});  // for another life of the job
  EXPECT_FAILS(ticket->wait_until_admitted(deadline_in(1ms)), StatusCode::kTimeout, "");
  answer("a", place_of("a"), {.workers = 0, .reason = "it waits"});
  EXPECT_FAILS(ticket->wait_until_admitted(deadline_in(1ms)), StatusCode::kTimeout, "");
  answer("a", place_of("a"), {.workers = 2, .batch = 8});
  ASSERT_OK_AND_ASSIGN(const JobAllocation admitted, ticket->wait_until_admitted(deadline_in(60s)));
  EXPECT_EQ(admitted.workers, 2);
  EXPECT_EQ(admitted.batch, 8);
}

TEST_F(JobTicketTest, IsToldThatItWasTurnedAway) {
  ASSERT_OK_AND_ASSIGN(const auto ticket, enter("a"));
  answer("a", place_of("a"), {.is_dropped = true, .reason = "it needs 9 of 8 workers"});
  EXPECT_FAILS(ticket->wait_until_admitted(deadline_in(60s)), StatusCode::kExhausted,
               "rejected: it needs 9 of 8 workers");
}

TEST_F(JobTicketTest, EndsWithItsObject) {
  auto ticket = enter("a");
  ASSERT_OK(ticket);
  EXPECT_FAILS(enter("a"), StatusCode::kConflict, "a job of this name exists");
  *ticket = nullptr;
  EXPECT_EQ(store_->list(cluster::kRequests)->size(), 0U);
  EXPECT_OK(enter("a"));
}

TEST_F(JobTicketTest, KeepsItsPlaceWhenItsLeaseHasEnded) {
  ASSERT_OK_AND_ASSIGN(const auto ticket, enter("a"));
  const std::string key = cluster::key_of(cluster::kRequests, "a");
  const Revision place = place_of("a");
  ASSERT_OK(store_->end_lease(store_->get(key)->lease));
  // The ticket may put it again at once, or later.
  ASSERT_TRUE(comes_true([&] {
    const auto entry = store_->get(key);
    return entry.ok() && entry->revision != place;
  }));
  EXPECT_EQ(cluster::parse_request(store_->get(key)->value)->place, place);
}

TEST_F(JobTicketTest, RefusesWhatMakesNoSense) {
  EXPECT_FAILS(enter("a/b"), StatusCode::kInvalidArgument, "it is not a valid name");
  EXPECT_FAILS(enter(""), StatusCode::kInvalidArgument, "it is not a valid name");
  EXPECT_FAILS(JobTicket::enter(*store_, system_runtime(), {"a", {}}), StatusCode::kInvalidArgument,
               "it has no size");
  EXPECT_FAILS(JobTicket::enter(*store_, system_runtime(), {"a", {{0, 1, 0}}}),
               StatusCode::kInvalidArgument, "the least is 1");
}

}  // namespace
}  // namespace ffdl
