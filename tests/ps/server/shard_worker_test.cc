#include "ps/server/shard_worker.h"

#include <gtest/gtest.h>

#include <thread>

#include "ps/segment/last_record.h"
#include "ps/test_region.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

std::vector<uint64_t> published(const TestRegion& region) {
  std::vector<uint64_t> targets;
  for (int l = 0; l < region->learners_max(); ++l) targets.push_back(region->learner(l).pub);
  return targets;
}

TEST(ShardWorker, FoldsAllThatIsPublishedBeforeItStops) {
  TestRegion region(TestRegion::small_config(2, 0));
  const auto rule = make_update_rule({.learning_rate = 1}).value();
  for (int l = 0; l < 3; ++l) region.publish(l, {});
  ServerControl control;
  control.stop_after(published(region));
  for (int k = 0; k < 2; ++k) ASSERT_OK(ShardWorker(*region, *rule, k, control).run());
  EXPECT_EQ(region->version(), 3U);
}

TEST(ShardWorker, RoundWaitsForEveryAttachedLearner) {
  Config config = TestRegion::small_config(1, 0);
  config.synchrony = Synchrony::kBulk;
  TestRegion region(config);
  const auto rule = make_update_rule({.learning_rate = 1}).value();
  region->learner(0).attached = 1;
  region->learner(1).attached = 1;
  region->learner(0).clock[1] = 1;
  region.publish(0, {});
  ServerControl control;
  ShardWorker worker(*region, *rule, 0, control);
  std::thread serving([&] { EXPECT_OK(worker.run()); });
  std::this_thread::yield();
  EXPECT_EQ(region->round().number, 0U);  // learner 1 has not published
  region->learner(1).clock[1] = 1;
  region.publish(1, {});
  region->server().work.ring();
  while (region->folded(0, 1).load() == 0) std::this_thread::yield();
  EXPECT_EQ(region->round().number, 1U);
  region->learner(1).attached = 0;  // a learner that left or died is not waited for
  region->learner(0).clock[0] = 2;
  region.publish(0, {});
  region->server().work.ring();
  while (region->folded(0, 0).load() < 2) std::this_thread::yield();
  EXPECT_EQ(region->round_sequence(2, 0), 2U);
  EXPECT_EQ(region->round_sequence(2, 1), 0U);
  control.stop_after(published(region));
  region->server().work.ring();
  serving.join();
}

// A newcomer may start behind. Learners ahead of it wait for it, so the round must not wait for
// them.
TEST(ShardWorker, RoundDoesNotWaitForThoseWhoAreAhead) {
  Config config = TestRegion::small_config(1, 0);
  config.synchrony = Synchrony::kBulk;
  TestRegion region(config);
  const auto rule = make_update_rule({.learning_rate = 1}).value();
  region->learner(0).attached = 1;
  region->learner(0).clock[0] = 5;  // 5 mini-batches are in the weights
  region->learner(1).attached = 1;
  region->learner(1).clock[1] = 5;  // its fifth
  region.publish(1, {});
  ServerControl control;
  ShardWorker worker(*region, *rule, 0, control);
  std::thread serving([&] { EXPECT_OK(worker.run()); });
  while (region->folded(0, 1).load() == 0) std::this_thread::yield();
  control.stop_after(published(region));
  region->server().work.ring();
  serving.join();
}

TEST(ShardWorker, CorruptRecordStopsItWithAReason) {
  TestRegion region(TestRegion::small_config(1, 0));
  const auto rule = make_update_rule({}).value();
  region.publish(0, {});
  region->meta(0, 1).samples = 99;
  ServerControl control;
  EXPECT_FAILS(ShardWorker(*region, *rule, 0, control).run(), StatusCode::kCorrupt, "learner 0");
}

// The record is whole; another process than the slot's owner published it.
TEST(ShardWorker, ARecordOfAnotherOwnerStopsItWithAReason) {
  TestRegion region(TestRegion::small_config(1, 0));
  const auto rule = make_update_rule({}).value();
  change_owner(*region, 0, 11);
  Meta meta = {};
  meta.sequence = 1;
  meta.owner = 12;
  meta.mini_batches = 1;
  meta.clip_scale = 1;
  write_record(*region, 0, meta, {}, {});
  region->learner(0).pub = 1;
  ServerControl control;
  EXPECT_FAILS(ShardWorker(*region, *rule, 0, control).run(), StatusCode::kCorrupt,
               "gradient 1 of learner 0: it was published by no owner");
  EXPECT_EQ(region->folded(0, 0), 0U);
}

TEST(ServerControl, KeepsTheFirstFailure) {
  ServerControl control;
  EXPECT_FALSE(control.failed());
  control.fail(Status(StatusCode::kCorrupt, "first"));
  control.fail(Status(StatusCode::kInternal, "second"));
  EXPECT_TRUE(control.failed());
  EXPECT_EQ(control.failure().message(), "first");
}

}  // namespace
}  // namespace ffdl::ps
