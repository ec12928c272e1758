#include <gtest/gtest.h>

#include "ffdl/membership.h"
#include "membership/keys.h"
#include "membership/membership_records.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

class JobStatusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_store("mem://", system_runtime());
    ASSERT_OK(opened);
    store_ = std::move(opened).value();
  }

  std::unique_ptr<Store> store_;
  const membership::Keys keys_{"job"};
};

TEST_F(JobStatusTest, NobodyHasJoined) {
  ASSERT_OK_AND_ASSIGN(const JobStatus status, read_job(*store_, "job"));
  EXPECT_EQ(status.world.generation, 0U);
  EXPECT_TRUE(status.members.empty());
  EXPECT_EQ(status.leader, std::nullopt);
  EXPECT_EQ(last_incarnation(*store_, "job", "a").value(), 0U);
}

TEST_F(JobStatusTest, MembersOfTheWorldComeFirst) {
  membership::WorldRecord record;
  record.generation = record.active_generation = 7;
  record.phase = Phase::kActive;
  record.members = record.state_holders = {{"b", 2, "b:1"}, {"a", 1, "a:1"}};
  record.active_lineage = record.lineage = 3;
  record.term = 4;
  record.leader = record.members[0];
  record.checkpoint = {.lineage = 3, .manifest = "saved"};
  ASSERT_OK(store_->put(keys_.world(), encode(record)));
  ASSERT_OK(store_->put(keys_.leader(), membership::encode_leader(record.leader)));
  ASSERT_OK(store_->put(keys_.candidate("b"), membership::encode({2, "b:1", true, 0})));
  ASSERT_OK(
      store_->put(keys_.candidate("a"), membership::encode({2, "a:2", false, 0})));  // new life
  ASSERT_OK(store_->put(keys_.candidate("c"), membership::encode({1, "c:1", false, 0})));
  ASSERT_OK(store_->put(keys_.candidate("d"), "foreign"));
  EXPECT_FAILS(record_server_end(*store_, "job", "a/b", 7), StatusCode::kInvalidArgument,
               "not a valid name");
  ASSERT_OK(record_server_end(*store_, "job", "digits", 7));
  ASSERT_OK(store_->put(keys_.progress("b"), encode(membership::Progress{2, 7, 55})));
  ASSERT_OK(
      store_->put(keys_.progress("c"), encode(membership::Progress{9, 7, 56})));  // another life

  ASSERT_OK_AND_ASSIGN(const JobStatus status, read_job(*store_, "job"));
  EXPECT_EQ(status.world.generation, 7U);
  EXPECT_EQ(status.world.rank, -1);
  EXPECT_EQ(status.world.lineage, 3U);
  EXPECT_EQ(status.active_generation, 7U);
  EXPECT_EQ(status.term, 4U);
  EXPECT_EQ(status.leader, record.leader);
  EXPECT_EQ(status.checkpoint->manifest, "saved");
  ASSERT_EQ(status.members.size(), 4U);
  const MemberStatus &b = status.members[0], &old_a = status.members[1];
  const MemberStatus &new_a = status.members[2], &c = status.members[3];
  EXPECT_EQ(b.member, (Member{"b", 2}));
  EXPECT_EQ(b.rank, 0);
  EXPECT_TRUE(b.is_alive && b.is_leaving);
  EXPECT_EQ(b.step, 55U);
  EXPECT_EQ(old_a.rank, 1);
  EXPECT_FALSE(old_a.is_alive);
  EXPECT_EQ(new_a.member, (Member{"a", 2}));
  EXPECT_EQ(new_a.member.address, "a:2");
  EXPECT_EQ(new_a.rank, -1);
  EXPECT_TRUE(new_a.is_alive);
  EXPECT_EQ(c.member.id, "c");
  EXPECT_EQ(c.step, 0U);
  EXPECT_EQ(status.ended_servers, (std::map<std::string, uint64_t>{{"digits", 7}}));
  ASSERT_OK(begin_again(*store_, "job"));
  EXPECT_TRUE(read_job(*store_, "job")->ended_servers.empty());
}

TEST_F(JobStatusTest, AWorldThatCannotBeReadIsSaid) {
  ASSERT_OK(store_->put(keys_.world(), "foreign"));
  EXPECT_FAILS(read_job(*store_, "job"), StatusCode::kCorrupt, "the record of the world");
}

TEST_F(JobStatusTest, LivesAreCounted) {
  ASSERT_OK(store_->put(keys_.incarnation("a"), "12"));
  EXPECT_EQ(last_incarnation(*store_, "job", "a").value(), 12U);
  ASSERT_OK(store_->put(keys_.incarnation("a"), "twelve"));
  EXPECT_FAILS(last_incarnation(*store_, "job", "a"), StatusCode::kCorrupt, "an incarnation");
}

}  // namespace
}  // namespace ffdl
