#include "comm/network/greeting.h"

#include <gtest/gtest.h>

#include "comm/operation/world_key.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

World greeting_world(int rank, const std::string& job = "a") {
  return {.generation = 4, .rank = rank, .members = testing::members_named(3), .job = job};
}

const std::vector<std::string> kSeeds = {"x", "y", "z"};

// Prepares the greetings of ranks 0 and 2 up to the proof of rank 2.
class LinkGreeting : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(challenge_, LinkGreeter::challenge());
    ASSERT_OK_AND_ASSIGN(proof_, two_.answer(challenge_, 0));
  }

  const World world_of_zero_ = greeting_world(0);
  const World world_of_two_ = greeting_world(2);
  const LinkGreeter zero_{world_of_zero_, link_token(world_of_zero_, kSeeds)};
  const LinkGreeter two_{world_of_two_, link_token(world_of_two_, kSeeds)};
  LinkChallenge challenge_{};
  LinkProof proof_{};
};

TEST(LinkToken, IsThatOfOneWorldAndOfAllSeeds) {
  const World world = greeting_world(0);
  const std::string token = link_token(world, kSeeds);
  EXPECT_EQ(link_token(greeting_world(2), kSeeds), token);
  EXPECT_NE(link_token(world, {"x", "y", "w"}), token);
  EXPECT_NE(link_token(world, {"xy", "", "z"}), token);
  EXPECT_NE(link_token(greeting_world(0, "b"), kSeeds), token);
  World later = world;
  ++later.generation;
  EXPECT_NE(link_token(later, kSeeds), token);
  World other_life = world;
  ++other_life.members[1].incarnation;
  EXPECT_NE(link_token(other_life, kSeeds), token);
}

TEST_F(LinkGreeting, TwoMembersKnowEachOther) {
  EXPECT_EQ(*zero_.check(challenge_, proof_), 2);
  EXPECT_OK(two_.check(challenge_, proof_, zero_.welcome(challenge_, proof_)));
}

// Each byte of a proof is checked, its nonce included. A proof for another challenge is invalid.
TEST_F(LinkGreeting, AProofThatIsChangedOrWasMeantForAnotherChallengeIsNone) {
  auto* const bytes = reinterpret_cast<unsigned char*>(&proof_);
  for (size_t at = 0; at < sizeof proof_; ++at) {
    bytes[at] ^= 1;
    EXPECT_FAILS(zero_.check(challenge_, proof_), StatusCode::kPeerLost,
                 "a process that is not a member of it has connected");
    bytes[at] ^= 1;
  }
  ASSERT_OK_AND_ASSIGN(const LinkChallenge later, LinkGreeter::challenge());
  EXPECT_FAILS(zero_.check(later, proof_), StatusCode::kPeerLost, "not a member");
}

TEST_F(LinkGreeting, AMemberOfAnotherWorldRankOrJobIsRefused) {
  World later = greeting_world(0);
  ++later.generation;
  EXPECT_FAILS(LinkGreeter(later, link_token(later, kSeeds)).check(challenge_, proof_),
               StatusCode::kPeerLost, "connect generation 5 of job 'a' as rank 0");
  const World other_job = greeting_world(0, "b");
  EXPECT_FAILS(LinkGreeter(other_job, link_token(other_job, kSeeds)).check(challenge_, proof_),
               StatusCode::kPeerLost, "connect generation 4 of job 'b' as rank 0");
  const World one = greeting_world(1);
  EXPECT_FAILS(LinkGreeter(one, link_token(one, kSeeds)).check(challenge_, proof_),
               StatusCode::kPeerLost, "as rank 1");
  const LinkGreeter without_a_seed(world_of_zero_, link_token(world_of_zero_, {"x", "y", "w"}));
  EXPECT_FAILS(without_a_seed.check(challenge_, proof_), StatusCode::kPeerLost, "not a member");
}

TEST_F(LinkGreeting, AListenerThatIsNoMemberIsRefusedByTheNameOfTheRankItIsNot) {
  LinkChallenge other = challenge_;
  other.magic[0] ^= 1;
  EXPECT_FAILS(two_.answer(other, 0), StatusCode::kPeerLost, "address of rank 0 'm0'");
  LinkWelcome welcome = zero_.welcome(challenge_, proof_);
  welcome.mac[31] ^= 1;
  EXPECT_FAILS(two_.check(challenge_, proof_, welcome), StatusCode::kPeerLost,
               "not a member answers at the address of rank 0 'm0'");
  // The caller's own code is not accepted as an answer.
  EXPECT_FAILS(two_.check(challenge_, proof_, LinkWelcome{proof_.mac}), StatusCode::kPeerLost,
               "not a member answers");
}

}  // namespace
}  // namespace ffdl::comm
