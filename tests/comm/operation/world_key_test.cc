#include "comm/operation/world_key.h"

#include <gtest/gtest.h>

#include <set>

#include "support/ranks.h"

namespace ffdl::comm {
namespace {

TEST(WorldKey, TheMembersAreTheirOrderTheirIdsAndTheirLives) {
  const World world = testing::world_of(3);
  World other = world;
  std::swap(other.members[0], other.members[1]);
  EXPECT_NE(world_hash(world), world_hash(other));
  other = world;
  ++other.members[2].incarnation;
  EXPECT_NE(world_hash(world), world_hash(other));
  other = world;
  other.rank = 2;
  EXPECT_EQ(world_hash(world), world_hash(other));
  other.job = "a";
  EXPECT_NE(world_hash(world), world_hash(other));
}

TEST(WorldKey, EveryKeyStandsUnderTheJob) {
  World world = testing::world_of(2);
  std::set<std::string> keys = {meeting_key(world), ring_key(world)};
  EXPECT_TRUE(meeting_key(world).starts_with("comm/"));
  EXPECT_TRUE(ring_key(world).starts_with("listen/"));
  for (const std::string job : {"a", "b", "comm", "listen"}) {
    world.job = job;
    for (const std::string& key : {meeting_key(world), ring_key(world)}) {
      EXPECT_TRUE(key.starts_with("ffdl/" + job + "/")) << key;
      EXPECT_TRUE(keys.insert(key).second) << key;
    }
  }
}

TEST(WorldKey, TheNameOfAWorldNamesItsJob) {
  World world = testing::world_of(2);
  world.generation = 4;
  EXPECT_EQ(name_of(world), "generation 4");
  world.job = "a";
  EXPECT_EQ(name_of(world), "generation 4 of job 'a'");
}

}  // namespace
}  // namespace ffdl::comm
