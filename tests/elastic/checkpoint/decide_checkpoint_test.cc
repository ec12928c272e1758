#include "elastic/checkpoint/decide_checkpoint.h"

#include <gtest/gtest.h>

namespace ffdl::elastic {
namespace {

TEST(Publication, OneIsTakenWhenSomebodyWantsItAndNoneIsUnderWay) {
  const CheckpointWord quiet = {};
  const CheckpointWord wants = {1, 0, 0};
  const CheckpointWord busy = {0, 40, 0};
  const CheckpointWord both = {1, 40, 0};
  EXPECT_FALSE(should_take(std::vector{quiet, quiet}));
  EXPECT_TRUE(should_take(std::vector{quiet, wants}));
  EXPECT_TRUE(should_take(std::vector{wants, wants}));
  EXPECT_FALSE(should_take(std::vector{wants, busy}));
  EXPECT_FALSE(should_take(std::vector{quiet, both}));
}

// Returns facts of three authors with all shards on the disk. This member is the first author.
CheckpointFacts ready() {
  CheckpointFacts facts;
  facts.authors.assign(3, {.is_here = true, .is_member = true, .has_shard = true});
  facts.is_stable = true;
  return facts;
}

TEST(Publication, TheFirstMemberPublishesWhatIsWholeAndStable) {
  CheckpointFacts facts = ready();
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kPublish);
  facts.is_stable = false;
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kWait);
  facts = ready();
  facts.authors[2].has_shard = false;
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kWait);
  facts = ready();
  facts.rank = 1;
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kWait);
}

TEST(Publication, TheNextOneDoesWhereTheFirstIsGone) {
  CheckpointFacts facts = ready();
  facts.rank = 1;
  facts.authors[0] = {.is_here = false, .is_member = false, .has_shard = true};
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kPublish);
  facts.authors[0].is_here = true;  // it lives, but is left out
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kPublish);
  facts.authors[1].is_member = false;  // and so is this one
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kWait);
}

TEST(Publication, AShardThatWillNeverComeEndsIt) {
  CheckpointFacts facts = ready();
  facts.authors[2] = {.is_here = false, .is_member = true, .has_shard = false};
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kDrop);
  facts = ready();
  facts.is_given_up = true;
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kDrop);
  facts = ready();
  facts.is_lineage_over = true;
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kDrop);
}

TEST(Publication, WhatIsPublishedIsDone) {
  CheckpointFacts facts = ready();
  facts.is_published = facts.is_given_up = true;
  EXPECT_EQ(decide_checkpoint(facts), CheckpointAction::kDone);
}

}  // namespace
}  // namespace ffdl::elastic
