#include "store/state.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;

constexpr Time at(Duration since) { return Time(since); }

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

}  // namespace
}  // namespace ffdl::store
