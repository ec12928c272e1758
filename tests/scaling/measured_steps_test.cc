#include "scaling/measured_steps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace ffdl::scaling {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

struct Said {
  uint64_t samples = 8;
  double communication_s = kNothing;
  uint64_t host_memory_bytes = 0;
  double queue = kNothing;
};

class Steps {
 public:
  std::optional<Measurement> add(const std::vector<Said>& members, double now_s) {
    constexpr size_t kBytes = sizeof(MeterWord) + sizeof(double);
    std::vector<std::byte> records(members.size() * kBytes);
    std::vector<uint64_t> samples;
    for (size_t rank = 0; rank < members.size(); ++rank) {
      const MeterWord word{members[rank].communication_s, members[rank].host_memory_bytes};
      std::memcpy(records.data() + rank * kBytes, &word, sizeof word);
      std::memcpy(records.data() + rank * kBytes + sizeof word, &members[rank].queue, 8);
      samples.push_back(members[rank].samples);
    }
    return measured.add(++step, StepRecords(records, kBytes, kBytes, samples), now_s);
  }

  MeasuredSteps measured{2, {"queue"}};
  uint64_t step = 0;
};

TEST(MeasuredSteps, AddsUpWhatMembersSay) {
  Steps steps;
  steps.measured.start_anew(7);
  EXPECT_TRUE(steps.measured.is_empty());
  steps.measured.begin(10);
  EXPECT_FALSE(steps.add({{8, kNothing, 100, 4}, {4, 0.25, 300, 6}}, 11));
  const auto first = steps.add({{8, 0.5, 200, 10}, {4, 0.75, 200, kNothing}}, 12);
  ASSERT_TRUE(first);
  // Communication is 0.5 s of a step of 1 s on average, over the members that report it.
  const Measurement expected{7, 2, 2, 2, 2.0, 24, 12, 0.5, 300, {{"queue", {10, 2}}}};
  EXPECT_EQ(*first, expected);
  EXPECT_FALSE(steps.add({{8}, {8}}, 13));
  const auto second = steps.add({{8}, {0}}, 16);
  ASSERT_TRUE(second);
  const Measurement silent{7, 2, 4, 2, 4.0, 24, 0, 0, 0, {}};
  EXPECT_EQ(*second, silent);
}

TEST(MeasuredSteps, OneBatchIsThatOfAllSteps) {
  Steps steps;
  steps.measured.start_anew(1);
  steps.measured.begin(0);
  const auto batch_of = [&](uint64_t first, uint64_t second) {
    steps.add({{first}, {0}}, 1);
    return steps.add({{second}, {0}}, 2)->batch;
  };
  EXPECT_EQ(batch_of(8, 8), 8U);
  EXPECT_EQ(batch_of(8, 7), 0U);
  EXPECT_EQ(batch_of(0, 8), 0U);
}

TEST(MeasuredSteps, AWorldBeginsAnew) {
  Steps steps;
  steps.measured.start_anew(1);
  steps.measured.begin(0);
  EXPECT_FALSE(steps.add({{8}}, 1));
  steps.measured.start_anew(2);
  EXPECT_TRUE(steps.measured.is_empty());
  steps.measured.begin(5);
  EXPECT_FALSE(steps.add({{8}, {8}}, 6));
  const auto measured = steps.add({{8}, {8}}, 7);
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->generation, 2U);
  EXPECT_EQ(measured->seconds, 2);
  EXPECT_EQ(measured->samples, 32U);
}

TEST(MeasuredSteps, AClockThatStandsStillIsNoDivision) {
  Steps steps;
  steps.measured.start_anew(1);
  steps.measured.begin(1);
  steps.add({{8, 0.5}}, 1);
  const auto measured = steps.add({{8, 0.5}}, 1);
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->communication_share, 0);
}

}  // namespace
}  // namespace ffdl::scaling
