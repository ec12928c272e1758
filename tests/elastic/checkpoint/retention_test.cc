#include "elastic/checkpoint/retention.h"

#include <gmock/gmock.h>

#include <limits>

namespace ffdl::elastic {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::optional<uint64_t> kNever;

StoredCheckpoint at(uint64_t step, std::optional<uint64_t> sequence,
                    std::optional<double> metric = {}, const std::string& job = "job") {
  return {job + std::to_string(step), {job, 1, 1, step, 0}, sequence, metric};
}

TEST(Retention, TheLastStay) {
  const std::vector<StoredCheckpoint> stored = {at(10, 1), at(20, 2), at(30, 3), at(40, 4)};
  EXPECT_THAT(choose_removals(stored, {"job", "job40", 1}),
              UnorderedElementsAre("job10", "job20", "job30"));
  EXPECT_THAT(choose_removals(stored, {"job", "job40", 3}), UnorderedElementsAre("job10"));
  EXPECT_THAT(choose_removals(stored, {"job", "job40", 9}), IsEmpty());
}

// Another member was faster. The record names its checkpoint now, or will soon.
TEST(Retention, WhatWasPublishedLaterStays) {
  const std::vector<StoredCheckpoint> stored = {at(10, 1), at(20, 2), at(30, 3)};
  EXPECT_THAT(choose_removals(stored, {"job", "job20", 1}), UnorderedElementsAre("job10"));
}

TEST(Retention, WithoutThatOneNothingGoes) {
  const std::vector<StoredCheckpoint> stored = {at(10, 1), at(20, 2)};
  EXPECT_THAT(choose_removals(stored, {"job", "job30", 1}), IsEmpty());
}

TEST(Retention, TheBestStayToo) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<StoredCheckpoint> stored = {at(10, 1, 0.5), at(20, 2, 0.1), at(30, 3, none),
                                                at(40, 4), at(50, 5, 0.3)};
  EXPECT_THAT(choose_removals(stored, {"job", "job50", 1, 1}),
              UnorderedElementsAre("job10", "job30", "job40"));
  EXPECT_THAT(choose_removals(stored, {"job", "job50", 1, 3}),
              UnorderedElementsAre("job30", "job40"));
}

TEST(Retention, WhatWasNeverPublishedGoesOnceItIsOld) {
  const std::vector<StoredCheckpoint> stored = {at(10, kNever), at(20, 1), at(30, kNever)};
  EXPECT_THAT(choose_removals(stored, {"job", "job20", 1}), UnorderedElementsAre("job10"));
}

TEST(Retention, OthersJobsStay) {
  const std::vector<StoredCheckpoint> stored = {at(10, 1, {}, "other"), at(11, kNever, {}, "other"),
                                                at(20, 2)};
  EXPECT_THAT(choose_removals(stored, {"job", "job20", 1}), IsEmpty());
}

}  // namespace
}  // namespace ffdl::elastic
