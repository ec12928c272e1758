#include "ps/segment/stats.h"

#include <gtest/gtest.h>

#include "ps/test_region.h"

namespace ffdl::ps {
namespace {

TEST(Stats, ReportsWhatTheWordsSay) {
  const TestRegion region(TestRegion::small_config(2, 0));
  region->server().epoch = 3;
  region->server().recoveries = 2;
  region->learner(1).incarnation = 4;
  region->learner(1).attached = 1;
  region->learner(1).pid = 77;
  region->learner(1).pub = 9;
  region->folded(0, 1) = 9;
  region->folded(1, 1) = 8;
  region->ledger(region->slot_word(1, kMiniBatches)) = 20;
  region->ledger(Region::partition_word(2, kCommitted)) = 55;
  region->ledger(region->staleness_word(1)) = 6;
  const ParameterServerStats stats = read_stats(*region, -1);
  EXPECT_EQ(stats.epoch, 3U);
  EXPECT_EQ(stats.recoveries, 2U);
  EXPECT_EQ(stats.version, 8U);
  EXPECT_FALSE(stats.server_alive);
  ASSERT_EQ(stats.learners.size(), 1U);  // only slots that were ever used
  EXPECT_EQ(stats.learners[0].slot, 1);
  EXPECT_EQ(stats.learners[0].pid, 77);
  EXPECT_EQ(stats.learners[0].published, 9U);
  EXPECT_EQ(stats.learners[0].folded, 8U);
  EXPECT_EQ(stats.learners[0].mini_batches, 20U);
  EXPECT_EQ(stats.partitions[2].committed, 55U);
  EXPECT_EQ(stats.staleness[1], 6U);
}

}  // namespace
}  // namespace ffdl::ps
