#include "comm/operation/rendezvous.h"

#include <gtest/gtest.h>

#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;

World world_of(int rank, int ranks) { return {4, rank, testing::members_named(ranks)}; }

TEST(Rendezvous, EachGetsTheRecordsOfAllByRank) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  testing::on_threads(3, [&](int rank) {
    const auto told = exchange_records(world_of(rank, 3), *store, "topic",
                                       "record " + std::to_string(rank), deadline_in(60s));
    ASSERT_OK(told);
    EXPECT_EQ(told->records, (std::vector<std::string>{"record 0", "record 1", "record 2"}));
  });
}

TEST(Rendezvous, TwoTopicsAndTwoWorldsDoNotMix) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  World other = world_of(0, 1);
  ASSERT_OK(exchange_records(other, *store, "a", "1", deadline_in(60s)));
  ASSERT_OK(exchange_records(other, *store, "b", "2", deadline_in(60s)));
  other.job = "job";
  ASSERT_OK_AND_ASSIGN(const Told apart,
                       exchange_records(other, *store, "a", "of a job", deadline_in(60s)));
  EXPECT_EQ(apart.records, std::vector<std::string>{"of a job"});
  other.generation = 5;
  ASSERT_OK_AND_ASSIGN(const Told told,
                       exchange_records(other, *store, "a", "3", deadline_in(60s)));
  EXPECT_EQ(told.records, std::vector<std::string>{"3"});
}

TEST(Rendezvous, WhoHasNotComeIsNamedAndNothingIsLeft) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  EXPECT_FAILS(exchange_records(world_of(0, 2), *store, "topic", "here", deadline_in(20ms)),
               StatusCode::kTimeout, "rank 1 'm1' has not arrived");
  ASSERT_OK_AND_ASSIGN(const auto left, store->list("comm/"));
  EXPECT_TRUE(left.empty());
}

TEST(Rendezvous, TheSameRankTwiceIsRefusedAndTheFirstOneStays) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  ASSERT_OK_AND_ASSIGN(const Told first, exchange_records(world_of(0, 1), *store, "topic", "first",
                                                          deadline_in(60s)));
  EXPECT_FAILS(exchange_records(world_of(0, 1), *store, "topic", "second", deadline_in(60s)),
               StatusCode::kWorldChanged, "another process has begun it as that rank");
  ASSERT_OK_AND_ASSIGN(const auto entries, store->list("comm/"));
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].value, "first");
  ASSERT_OK(store->end_lease(first.lease));
  EXPECT_OK(exchange_records(world_of(0, 1), *store, "topic", "third", deadline_in(60s)));
}

}  // namespace
}  // namespace ffdl::comm
