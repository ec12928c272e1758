#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "training/audit.h"
#include "training/shares.h"

namespace training {
namespace {

using ::testing::HasSubstr;

TEST(EpochOrder, EverySampleOncePerEpochOverAllPartitions) {
  constexpr uint64_t kTrainSamples = 1257;
  for (const uint32_t partitions : {1U, 2U, 3U, 16U}) {
    for (const uint64_t epoch : {0U, 1U, 39U}) {
      std::vector<int> uses(kTrainSamples);
      for (uint32_t partition = 0; partition < partitions; ++partition) {
        const Share share{partition, partitions, kTrainSamples};
        for (const uint64_t index : epoch_order(5, epoch, share)) ++uses.at(share.sample(index));
      }
      EXPECT_TRUE(std::all_of(uses.begin(), uses.end(), [](int count) { return count == 1; }));
    }
  }
}

TEST(EpochOrder, DependsOnSeedEpochAndPartitionAlone) {
  const Share share{0, 2, 1257};
  const auto order = epoch_order(1, 0, share);
  EXPECT_EQ(order, epoch_order(1, 0, share));
  EXPECT_NE(order, epoch_order(2, 0, share));
  EXPECT_NE(order, epoch_order(1, 1, share));
  auto other = epoch_order(1, 0, {1, 2, 1257});
  EXPECT_NE(std::vector(order.begin(), order.begin() + 100),
            std::vector(other.begin(), other.begin() + 100));
}

TEST(Audit, AcceptsEverySampleOncePerEpochAndNothingElse) {
  constexpr uint64_t kEpochs = 3;
  const auto ledger_of = [](uint64_t first, uint64_t second) {
    ffdl::ParameterServerStats stats;
    stats.partitions = {{.committed = first, .samples = first},
                        {.committed = second, .samples = second}};
    return stats;
  };
  const auto good = ledger_of(kEpochs * 51, kEpochs * 50);  // the shares of 101 samples
  EXPECT_TRUE(audit(good, 101, kEpochs).ok());
  EXPECT_EQ(sum_ledger(good).committed, kEpochs * 101);

  EXPECT_FALSE(audit(ledger_of(kEpochs * 50, kEpochs * 51), 101, kEpochs).ok());
  EXPECT_FALSE(audit(ledger_of(kEpochs * 51, kEpochs * 50 - 1), 101, kEpochs).ok());
  auto repeated = good;
  repeated.partitions[1].repeated = 16;
  EXPECT_THAT(std::string(audit(repeated, 101, kEpochs).message()),
              HasSubstr("audit partition '1'"));
  auto missing = good;
  missing.partitions[0].missing = 1;
  EXPECT_EQ(audit(missing, 101, kEpochs).code(), ffdl::StatusCode::kCorrupt);
}

TEST(MedianStaleness, IsTheLowEndOfItsInterval) {
  ffdl::ParameterServerStats stats;
  EXPECT_EQ(median_staleness(stats), 0U);
  stats.staleness = {10, 10, 1};
  EXPECT_EQ(median_staleness(stats), 1U);
  stats.staleness = {1, 2, 3, 20};
  EXPECT_EQ(median_staleness(stats), 4U);
}

}  // namespace
}  // namespace training
