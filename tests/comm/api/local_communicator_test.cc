#include "comm/api/local_communicator.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl {
namespace {

// tests/conformance tests the documented behaviour.

TEST(LocalCommunicators, EachHasItsRankOfOneWorld) {
  const std::vector<Member> members = {{"a", 1}, {"b", 7}};
  ASSERT_OK_AND_ASSIGN(const auto ranks, make_local_communicators(3, members));
  ASSERT_EQ(ranks.size(), 2U);
  for (int rank = 0; rank < 2; ++rank) {
    const World& world = ranks[static_cast<size_t>(rank)]->world();
    EXPECT_EQ(world.generation, 3U);
    EXPECT_EQ(world.rank, rank);
    EXPECT_EQ(world.members, members);
  }
}

TEST(LocalCommunicators, AWorldHasMembers) {
  EXPECT_FAILS(make_local_communicators(3, {}), StatusCode::kInvalidArgument, "0 members");
}

}  // namespace
}  // namespace ffdl
