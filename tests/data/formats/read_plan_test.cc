#include "data/formats/read_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ffdl::data {
namespace {

using Ranges = std::vector<SampleRange>;
using Plan = std::vector<PlannedBlock>;

constexpr ReadRules kRules = {.block_samples = 10, .ahead_samples = 30};

TEST(PlanReads, CutsLongLeasesOnly) {
  EXPECT_EQ(plan_reads(Ranges{{0, 100, 120}}, 5, {}, kRules), (Plan{{{0, 100, 120}, -1}}));
  EXPECT_EQ(plan_reads(Ranges{{0, 100, 125}}, 5, {}, kRules),
            (Plan{{{0, 100, 110}, -1}, {{0, 110, 125}, -1}}));
  EXPECT_EQ(plan_reads({}, 0, {}, kRules), Plan{});
}

TEST(PlanReads, LooksAheadAsFarAsItMay) {
  const Ranges leases = {{3, 0, 15}, {1, 15, 30}, {7, 0, 15}, {2, 0, 15}};
  EXPECT_EQ(plan_reads(leases, 1, {}, kRules).size(), 3U);
  EXPECT_EQ(plan_reads(leases, 16, {}, kRules).size(), 4U);
  const ReadRules none = {.block_samples = 10, .ahead_samples = 0};
  EXPECT_EQ(plan_reads(leases, 15, {}, none), (Plan{{{3, 0, 15}, -1}}));
  EXPECT_EQ(plan_reads(leases, 16, {}, none).size(), 2U);
  EXPECT_EQ(plan_reads(leases, 0, {}, none), Plan{});
}

TEST(PlanReads, KeepsWhatThereIs) {
  // Some of the block is used, and a part of the partition moved to another member.
  const Ranges known = {{4, 0, 20}, {0, 100, 115}, {0, 140, 150}};
  EXPECT_EQ(plan_reads(Ranges{{0, 105, 145}}, 1, known, kRules),
            (Plan{{{0, 100, 115}, 1}, {{0, 115, 125}, -1}, {{0, 125, 140}, -1}}));
  EXPECT_EQ(plan_reads(Ranges{{0, 105, 110}, {0, 112, 114}}, 1, known, kRules),
            (Plan{{{0, 100, 115}, 1}}));
}

// Holds for any request: the needed samples are covered, and no sample is in two blocks.
TEST(PlanReads, CoversWhatIsNeeded) {
  std::mt19937_64 random(1);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  const auto pieces = [&] {
    Ranges ranges;
    for (uint32_t partition = 0; partition < 4; ++partition) {
      for (uint64_t at = below(9); at < 60;) {
        const uint64_t end = at + 1 + below(30);
        if (below(2) == 0) ranges.push_back({partition, at, end});
        at = end + below(9);
      }
    }
    std::shuffle(ranges.begin(), ranges.end(), random);
    return ranges;
  };
  for (int round = 0; round < 2000; ++round) {
    const Ranges leases = pieces();
    const Ranges known = pieces();
    uint64_t held = 0;
    for (const SampleRange& lease : leases) held += lease.end - lease.begin;
    const uint64_t now = held == 0 ? 0 : below(held + 1);
    const ReadRules rules = {.block_samples = 1 + below(20), .ahead_samples = below(40)};
    const Plan plan = plan_reads(leases, now, known, rules);
    const auto blocks_with = [&](uint32_t partition, uint64_t position) {
      return std::count_if(plan.begin(), plan.end(), [&](const PlannedBlock& block) {
        return block.range.partition == partition && block.range.begin <= position &&
               position < block.range.end;
      });
    };
    uint64_t seen = 0;
    for (const SampleRange& lease : leases) {
      for (uint64_t at = lease.begin; at < lease.end; ++at, ++seen) {
        const auto blocks = blocks_with(lease.partition, at);
        ASSERT_LE(blocks, 1) << "round " << round;
        ASSERT_TRUE(seen >= now || blocks == 1) << "round " << round;
      }
    }
    for (const PlannedBlock& block : plan) {
      const bool is_new = block.known < 0;
      ASSERT_TRUE(is_new || block.range == known[static_cast<size_t>(block.known)]);
    }
  }
}

}  // namespace
}  // namespace ffdl::data
