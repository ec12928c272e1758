#include "store/local/state.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "store/local/state_file.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;
using testing::at;

TEST(State, ALeaseEndsAtItsTermAndNotBefore) {
  State state;
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, state.grant_lease(10s, at(0s)));
  ASSERT_OK(state.put("k", "v", lease, at(1s)));
  EXPECT_EQ(state.next_end(), at(10s));
  EXPECT_OK(state.get("k", at(10s - 1ns)));
  ASSERT_OK(state.keep_alive(lease, at(9s)));
  EXPECT_OK(state.get("k", at(19s - 1ns)));
  EXPECT_FAILS(state.get("k", at(19s)), StatusCode::kNotFound, "'k'");
  EXPECT_EQ(state.next_end(), kNoDeadline);
}

TEST(State, TheEndOfALeaseIsAChange) {
  State state;
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, state.grant_lease(10s, at(0s)));
  ASSERT_OK_AND_ASSIGN(const Revision put, state.put("k", "v", lease, at(1s)));
  EXPECT_FALSE(state.has_changed("k", put, at(9s)));
  EXPECT_TRUE(state.has_changed("k", put, at(10s)));
}

TEST(State, NoLeaseHasTheNumberOfAnother) {
  State state;
  ASSERT_OK_AND_ASSIGN(const LeaseId first, state.grant_lease(1s, at(0s)));
  state.end_lease(first, at(0s));
  ASSERT_OK_AND_ASSIGN(const LeaseId second, state.grant_lease(1s, at(0s)));
  EXPECT_NE(first, second);
  EXPECT_NE(first, kNoLease);
}

TEST(State, ExtendedLeasesGetTheirFullTerm) {
  State state;
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, state.grant_lease(10s, at(0s)));
  state.extend_leases(at(50s));
  EXPECT_EQ(state.next_end(), at(60s));
  EXPECT_OK(state.keep_alive(lease, at(59s)));
}

TEST(State, ARevisionOfTheFutureIsAReasonToLookAgain) {
  State state;
  ASSERT_OK(state.put("k", "v", kNoLease, at(0s)));
  EXPECT_TRUE(state.has_changed("k", 5, at(0s)));
  EXPECT_TRUE(state.has_changed("k", 0, at(0s)));
  EXPECT_TRUE(state.has_changed("k", 1, at(0s)));
  EXPECT_FALSE(state.has_changed("k", 2, at(0s)));
}

TEST(State, AFailedPutChangesNothing) {
  State state;
  EXPECT_FAILS(state.compare_and_put("k", 3, "v", kNoLease, at(0s)), StatusCode::kConflict,
               "expected revision 3, it has 0");
  EXPECT_EQ(state.revision(), 1U);
}

TEST(State, WhenItIsFullItSaysSoAndKeepsWhatItHas) {
  State state;
  const std::string value(base::kStoreValueMax, 'v');
  const Time now = at(0s);
  Result<Revision> put = Revision{0};
  size_t keys = 0;
  while ((put = state.put(std::to_string(keys), value, kNoLease, now)).ok()) ++keys;
  EXPECT_FAILS(put, StatusCode::kExhausted, "the store is full");
  EXPECT_EQ(keys, base::kStoreBytesMax / value.size() - 1);
  EXPECT_EQ(state.list("", now).size(), keys);
  EXPECT_OK(state.put("0", "short", kNoLease, now));  // a smaller value needs no room
  EXPECT_OK(state.put("more", value.substr(1024), kNoLease, now));
  state.remove("1", now);
  EXPECT_OK(state.put("1", value, kNoLease, now));
  ASSERT_OK_AND_ASSIGN(State again, StateFile::read(StateFile::write(state, ""), "", now));
  EXPECT_FAILS(again.put("one too many", value, kNoLease, now), StatusCode::kExhausted, "full");
  EXPECT_OK(again.put("1", "short", kNoLease, now));
}

TEST(State, KeysThatEndWithALeaseMakeRoom) {
  State state;
  const std::string value(base::kStoreValueMax, 'v');
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, state.grant_lease(10s, at(0s)));
  for (int round = 0; round < 3; ++round) {
    size_t keys = 0;
    while (state.put(std::to_string(keys), value, lease, at(1s)).ok()) ++keys;
    EXPECT_EQ(keys, base::kStoreBytesMax / value.size() - 1);
    for (size_t key = 0; key < keys; ++key) state.remove(std::to_string(key), at(1s));
  }
  ASSERT_OK(state.put("k", value, lease, at(1s)));
  state.end_lease(lease, at(2s));
  size_t keys = 0;
  while (state.put(std::to_string(keys), value, kNoLease, at(3s)).ok()) ++keys;
  EXPECT_EQ(keys, base::kStoreBytesMax / value.size() - 1);
}

TEST(State, TooManyLeasesAreRefused) {
  State state;
  for (size_t i = 0; i < base::kStoreLeasesMax; ++i) ASSERT_OK(state.grant_lease(1h, Time::min()));
  EXPECT_FAILS(state.grant_lease(1h, Time::min()), StatusCode::kExhausted, "65536");
}

TEST(State, SkippedRevisionsAreChangesThatNobodyKnows) {
  State state;
  ASSERT_OK_AND_ASSIGN(const Revision before, state.put("k", "v", kNoLease, at(0s)));
  state.skip_revisions(1000);
  EXPECT_TRUE(state.has_changed("other", before, at(0s)));
  ASSERT_OK_AND_ASSIGN(const Revision after, state.put("k", "w", kNoLease, at(0s)));
  EXPECT_EQ(after, before + 1001);
  EXPECT_TRUE(state.has_changed("k", before + 1000, at(0s)));
  EXPECT_FALSE(state.has_changed("other", before + 1000, at(0s)));
}

}  // namespace
}  // namespace ffdl::store
