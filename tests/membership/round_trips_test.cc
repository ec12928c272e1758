#include "membership/round_trips.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ffdl::membership {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr Duration kLease = 300ms;

RoundTrips of(Duration each, size_t calls) {
  RoundTrips trips;
  for (size_t i = 0; i < calls; ++i) trips.add(each);
  return trips;
}

TEST(RoundTripsTest, ALeaseThatSuitsNeedsNoAdvice) {
  EXPECT_EQ(RoundTrips().advice(kLease, true), std::nullopt);
  EXPECT_EQ(of(1ms, RoundTrips::kKept).advice(kLease, false), std::nullopt);
  EXPECT_EQ(of(1ms, RoundTrips::kKept).advice(kLease, true), std::nullopt);
  EXPECT_EQ(of(25ms, RoundTrips::kKept).advice(kLease, false), std::nullopt);
}

TEST(RoundTripsTest, LongRoundTripsNameTheOptionAndALease) {
  // The advice is 12 times 104 ms, plus twice the slowest.
  const auto advice = of(104ms, RoundTrips::kKept).advice(kLease, false);
  EXPECT_THAT(advice, Optional(HasSubstr("take 104 ms (median of 16, the slowest 104 ms)")));
  EXPECT_THAT(advice, Optional(HasSubstr("the lease is 300 ms")));
  EXPECT_THAT(advice, Optional(HasSubstr("MembershipOptions::lease (in Python lease_s) to 1500")));
  EXPECT_EQ(of(104ms, RoundTrips::kKept).advice(1500ms, true), std::nullopt);
}

TEST(RoundTripsTest, ALeaseThatHasEndedNeedsOneCall) {
  EXPECT_EQ(of(104ms, RoundTrips::kJudged - 1).advice(kLease, false), std::nullopt);
  EXPECT_NE(of(104ms, 1).advice(kLease, true), std::nullopt);
}

TEST(RoundTripsTest, OneSlowCallCountsOnlyWhereTheLeaseHasEnded) {
  RoundTrips trips = of(1ms, RoundTrips::kKept);
  trips.add(400ms);
  EXPECT_EQ(trips.advice(kLease, false), std::nullopt);
  EXPECT_THAT(trips.advice(kLease, true), Optional(HasSubstr("to 900 ms")));
}

TEST(RoundTripsTest, OldCallsAreForgotten) {
  RoundTrips trips = of(104ms, RoundTrips::kKept);
  for (size_t i = 0; i < RoundTrips::kKept; ++i) trips.add(1ms);
  EXPECT_EQ(trips.advice(kLease, true), std::nullopt);
}

}  // namespace
}  // namespace ffdl::membership
