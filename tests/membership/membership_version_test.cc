#include <gtest/gtest.h>

#include "ffdl/membership.h"
#include "membership/keys.h"
#include "membership/membership_records.h"
#include "support/other_version_store.h"
#include "support/small_model.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Members of two versions of the protocol share a store.
namespace ffdl {
namespace {

using testing::soon;

class MembershipVersion : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Membership>> join(Store& store, const std::string& id) {
    return Membership::join(store, system_runtime(), {id, 0, ""}, testing::patient(2));
  }

  const std::unique_ptr<Store> store_ = open_store("mem://", system_runtime()).value();
  testing::OtherVersionStore other_{*store_};
  const membership::Keys keys_{"job"};
};

// The store has nothing of the newcomer, so the members cannot form a world with it.
TEST_F(MembershipVersion, ANewcomerIsRefusedBeforeItIsACandidate) {
  ASSERT_OK_AND_ASSIGN(const auto a, join(*store_, "a"));
  ASSERT_OK_AND_ASSIGN(const auto b, join(*store_, "b"));
  ASSERT_OK_AND_ASSIGN(const World world, a->wait_world_after(0, soon()));
  ASSERT_OK(a->activate(world.generation, soon()));
  ASSERT_OK(b->wait_active(world.generation, soon()));
  ASSERT_OK_AND_ASSIGN(const Entry before, store_->get(keys_.world()));
  EXPECT_FAILS(join(other_, "c"), StatusCode::kInvalidArgument,
               "use version " + std::to_string(membership::kProtocolVersion + 1) +
                   " of the protocol, this member " + std::to_string(membership::kProtocolVersion));
  EXPECT_FAILS(store_->get(keys_.candidate("c")), StatusCode::kNotFound, "");
  EXPECT_FAILS(store_->get(keys_.incarnation("c")), StatusCode::kNotFound, "");
  ASSERT_OK_AND_ASSIGN(const Entry after, store_->get(keys_.world()));
  EXPECT_EQ(after.revision, before.revision);
  EXPECT_OK(a->life_status());
  EXPECT_OK(b->life_status());
}

// Both begin at once. The member that learns of the other version later ends its own life.
TEST_F(MembershipVersion, ACandidateEndsItself) {
  ASSERT_OK_AND_ASSIGN(const auto b, join(other_, "b"));
  ASSERT_OK_AND_ASSIGN(const auto a, join(*store_, "a"));
  EXPECT_FAILS(b->wait_world_after(1000, soon()), StatusCode::kInvalidArgument,
               "use one version of ffdl");
  EXPECT_OK(a->life_status());
}

}  // namespace
}  // namespace ffdl
