#include <gtest/gtest.h>

#include <thread>

#include "conformance/store_back_ends.h"
#include "support/put_under_lease.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

// Tests that every back end behaves as store.h documents.
using StoreConformance = testing::OverEachStore;

TEST_P(StoreConformance, WhatOnePutsTheOtherGets) {
  EXPECT_FAILS(first_.get("a"), StatusCode::kNotFound, "'a'");
  ASSERT_OK_AND_ASSIGN(const Revision revision, first_.put("a", "one"));
  EXPECT_GT(revision, 0U);
  ASSERT_OK_AND_ASSIGN(const Entry entry, second_.get("a"));
  EXPECT_EQ(entry, (Entry{"a", "one", revision, kNoLease}));
}

TEST_P(StoreConformance, ValuesAreBytes) {
  const std::string value("\0\n\xff end", 7);
  ASSERT_OK(first_.put("k", value));
  ASSERT_OK_AND_ASSIGN(const Entry entry, second_.get("k"));
  EXPECT_EQ(entry.value, value);
  ASSERT_OK(first_.put("k", ""));
  EXPECT_EQ(second_.get("k")->value, "");
}

TEST_P(StoreConformance, EachChangeHasALargerRevision) {
  Revision last = 0;
  for (const char* key : {"x", "y", "x", "x"}) {
    ASSERT_OK_AND_ASSIGN(const Revision revision, first_.put(key, "v"));
    EXPECT_GT(revision, last);
    last = revision;
  }
  ASSERT_OK(second_.remove("x"));
  ASSERT_OK_AND_ASSIGN(const Revision again, first_.put("x", "v"));
  EXPECT_GT(again, last + 1);  // the removal was a change too
}

TEST_P(StoreConformance, ListGivesWhatBeginsWithThePrefixByKey) {
  for (const char* key : {"b/2", "a", "b/1", "c", "b", "b/10"}) ASSERT_OK(first_.put(key, key));
  ASSERT_OK_AND_ASSIGN(const std::vector<Entry> entries, second_.list("b/"));
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].key, "b/1");
  EXPECT_EQ(entries[1].key, "b/10");
  EXPECT_EQ(entries[2].key, "b/2");
  EXPECT_EQ(second_.list("")->size(), 6U);
  EXPECT_EQ(second_.list("d")->size(), 0U);
}

TEST_P(StoreConformance, CompareAndPutMakesOnlyWhatWasAbsent) {
  ASSERT_OK_AND_ASSIGN(const Revision made, first_.compare_and_put("k", 0, "one"));
  EXPECT_FAILS(second_.compare_and_put("k", 0, "two"), StatusCode::kConflict, "'k'");
  ASSERT_OK_AND_ASSIGN(const Revision next, second_.compare_and_put("k", made, "two"));
  EXPECT_FAILS(first_.compare_and_put("k", made, "three"), StatusCode::kConflict, "'k'");
  EXPECT_EQ(first_.get("k")->value, "two");
  EXPECT_EQ(first_.get("k")->revision, next);
  EXPECT_FAILS(first_.compare_and_put("absent", made, "x"), StatusCode::kConflict, "'absent'");
}

TEST_P(StoreConformance, ARemovedKeyIsAbsentAndItsRevisionIsSpent) {
  ASSERT_OK_AND_ASSIGN(const Revision made, first_.put("k", "one"));
  ASSERT_OK(second_.remove("k"));
  ASSERT_OK(second_.remove("k"));
  EXPECT_FAILS(first_.get("k"), StatusCode::kNotFound, "'k'");
  EXPECT_FAILS(first_.compare_and_put("k", made, "two"), StatusCode::kConflict, "'k'");
  EXPECT_OK(first_.compare_and_put("k", 0, "two"));
}

TEST_P(StoreConformance, OneOfManyWinsEachCompareAndPut) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kAdditions = 25;
  ASSERT_OK(first_.put("count", "0"));
  const auto add = [](Store& store) {
    for (uint64_t done = 0; done < kAdditions;) {
      const auto entry = store.get("count");
      ASSERT_OK(entry);
      const std::string next = std::to_string(std::stoull(entry->value) + 1);
      const auto put = store.compare_and_put("count", entry->revision, next);
      if (put.ok()) ++done;
      ASSERT_TRUE(put.ok() || put.status().code() == StatusCode::kConflict);
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back(add, std::ref(i % 2 == 0 ? first_ : second_));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first_.get("count")->value, std::to_string(kThreads * kAdditions));
}

TEST_P(StoreConformance, AWaitEndsWithTheChangeOfAnother) {
  ASSERT_OK_AND_ASSIGN(const Revision start, first_.wait_change("job/", 0, Time::min()));
  std::thread other([&] {
    EXPECT_OK(second_.put("elsewhere", "1"));
    EXPECT_OK(second_.put("job/a", "2"));
  });
  const auto changed = first_.wait_change("job/", start, deadline_in(60s));
  other.join();
  ASSERT_OK(changed);
  EXPECT_GT(*changed, start);
  EXPECT_OK(first_.get("job/a"));
}

TEST_P(StoreConformance, AWaitThatComesLateStillSeesTheChange) {
  ASSERT_OK_AND_ASSIGN(const Revision before, first_.put("job/a", "1"));
  ASSERT_OK(second_.remove("job/a"));
  ASSERT_OK_AND_ASSIGN(const Revision after, first_.wait_change("job/", before, Time::min()));
  EXPECT_GT(after, before);
  EXPECT_FAILS(first_.wait_change("job/", after, deadline_in(20ms)), StatusCode::kTimeout,
               "'job/'");
}

TEST_P(StoreConformance, AWaitForOneKeyIsNotEndedByOthers) {
  ASSERT_OK_AND_ASSIGN(const Revision before, first_.put("a", "1"));
  ASSERT_OK(second_.put("b", "1"));
  EXPECT_FAILS(first_.wait_change("a", before, deadline_in(20ms)), StatusCode::kTimeout, "'a'");
}

TEST_P(StoreConformance, WhoIsFarBehindIsToldToLookAgain) {
  ASSERT_OK_AND_ASSIGN(const Revision before, first_.put("a", "1"));
  for (int i = 0; i < 300; ++i) ASSERT_OK(second_.put("b", "1"));
  EXPECT_OK(first_.wait_change("a", before, Time::min()));
}

TEST_P(StoreConformance, ALeaseTakesItsKeysWithIt) {
  const auto [lease, revision] = testing::put_under_lease(first_, "member/a", 200ms);
  ASSERT_OK_AND_ASSIGN(const Revision put, revision);
  ASSERT_OK(first_.put("member/b", "1"));
  ASSERT_OK_AND_ASSIGN(Revision seen, second_.wait_change("member/", put + 1, deadline_in(60s)));
  EXPECT_GT(seen, put + 1);
  EXPECT_FAILS(second_.get("member/a"), StatusCode::kNotFound, "'member/a'");
  EXPECT_OK(second_.get("member/b"));
  EXPECT_FAILS(first_.keep_alive(lease), StatusCode::kNotFound, "it has ended");
  EXPECT_FAILS(first_.put("member/a", "1", lease), StatusCode::kNotFound, "it has ended");
}

TEST_P(StoreConformance, AnEndedLeaseEndsNow) {
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, first_.grant_lease(1h));
  ASSERT_OK(first_.put("k", "1", lease));
  ASSERT_OK(first_.keep_alive(lease));
  ASSERT_OK(second_.end_lease(lease));
  ASSERT_OK(second_.end_lease(lease));
  EXPECT_FAILS(first_.get("k"), StatusCode::kNotFound, "'k'");
}

TEST_P(StoreConformance, APutWithoutTheLeaseTakesTheKeyOutOfIt) {
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, first_.grant_lease(1h));
  ASSERT_OK(first_.put("k", "1", lease));
  ASSERT_OK(first_.put("k", "2"));
  ASSERT_OK(first_.end_lease(lease));
  EXPECT_EQ(first_.get("k")->value, "2");
}

TEST_P(StoreConformance, BeyondItsLimitsNothingIsPut) {
  EXPECT_FAILS(first_.put("", "v"), StatusCode::kInvalidArgument, "0 bytes");
  EXPECT_FAILS(first_.put(std::string(1025, 'k'), "v"), StatusCode::kInvalidArgument, "1025 bytes");
  EXPECT_FAILS(first_.put("k", std::string((1 << 20) + 1, 'v')), StatusCode::kInvalidArgument,
               "1048577 bytes");
  EXPECT_FAILS(first_.grant_lease(0ns), StatusCode::kInvalidArgument, "above 0");
  EXPECT_FAILS(first_.put("k", "v", 77), StatusCode::kNotFound, "lease 77");
  EXPECT_EQ(first_.list("")->size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(BackEnds, StoreConformance, testing::all_back_ends(), testing::name_of);

}  // namespace
}  // namespace ffdl
