#include "ps/segment/stats.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "ffdl/log.h"
#include "ffdl/runtime.h"
#include "ps/test_region.h"
#include "support/status_matchers.h"

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

TEST(Stats, ADeathThatFreedASlotIsCounted) {
  constexpr uint64_t kDeaths = 50'000;
  const TestRegion region(TestRegion::small_config(1, 0));
  ASSERT_OK_AND_ASSIGN(const shm::Segment segment, shm::Segment::create({.bytes = 4096}));
  region->learner(0).incarnation = 1;
  set_log_sink([](LogLevel, std::string_view) {});  // each death is a line
  std::atomic<uint64_t> died = 0;
  std::atomic<bool> is_over = false;
  std::thread server([&] {
    for (uint64_t death = 1; !is_over; ++death) {
      while (died < death && !is_over) std::this_thread::yield();
      if (died == death) reclaim_dead_learner(segment, *region, 0);
    }
  });
  uint64_t uncounted = 0;
  const Time end = deadline_in(std::chrono::seconds(3));  // a busy machine comes to fewer
  for (uint64_t death = 1; death <= kDeaths && deadline_in({}) < end; ++death) {
    region->learner(0).attached = 1;
    died = death;
    ParameterServerStats stats = read_stats(*region, -1);
    for (int look = 1; stats.learners[0].attached; ++look) {
      if (look % 1000 == 0) std::this_thread::yield();  // the other thread may have no processor
      stats = read_stats(*region, -1);
    }
    uncounted += stats.learners_reclaimed == death ? 0 : 1;
  }
  is_over = true;
  server.join();
  set_log_sink(nullptr);
  EXPECT_EQ(uncounted, 0U);
}

}  // namespace
}  // namespace ffdl::ps
