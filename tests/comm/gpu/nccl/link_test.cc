#include "comm/gpu/nccl/link.h"

#include <gtest/gtest.h>

#include <array>

#include "support/fake_nccl.h"
#include "support/programs.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::fake_nccl;
using testing::soon;

class NcclLinkTest : public ::testing::Test {
 protected:
  ~NcclLinkTest() override {
    EXPECT_EQ(fake.alive, 0) << "communicators of NCCL that nobody ended";
    EXPECT_EQ(fake.misused, 0) << "calls after which NCCL hangs";
  }
  testing::FakeNccl& fake = testing::fresh_fake_nccl();
};

Pause until(Time deadline) {
  return [deadline]() -> Status {
    if (std::chrono::steady_clock::now() < deadline) return {};
    return Status(StatusCode::kTimeout, "the test waits no longer");
  };
}

nccl::UniqueId new_id() {
  nccl::UniqueId id{};
  EXPECT_EQ((*fake_nccl())->get_unique_id(&id), nccl::Code::kSuccess);
  return id;
}

TEST_F(NcclLinkTest, RanksConnectThroughAsManyIdsAsThereAre) {
  for (const int ids : {1, 2}) {
    const std::array<nccl::UniqueId, 2> all = {new_id(), new_id()};
    testing::on_threads(2, [&](int rank) {
      ASSERT_OK_AND_ASSIGN(const auto link,
                           NcclLink::connect(fake_nccl(), {all.data(), static_cast<size_t>(ids)},
                                             rank, 2, until(soon())));
      EXPECT_OK(link->check("look"));
      link->leave(until(soon()));
    });
    EXPECT_EQ(fake.ids, ids);
  }
  EXPECT_EQ(fake.left, 4);
  EXPECT_EQ(fake.aborted, 0);
}

TEST_F(NcclLinkTest, ConnectingEndsWhenThePauseSaysSo) {
  const nccl::UniqueId id = new_id();
  EXPECT_FAILS(NcclLink::connect(fake_nccl(), {&id, 1}, 0, 2, until(deadline_in(20ms))),
               StatusCode::kTimeout, "waits no longer");
  EXPECT_EQ(fake.aborted, 1);
}

TEST_F(NcclLinkTest, ConnectingThatIsRefusedSaysWhatNcclSays) {
  fake.connect_error = static_cast<int>(nccl::Code::kInvalidUsage);
  const nccl::UniqueId id = new_id();
  EXPECT_FAILS(NcclLink::connect(fake_nccl(), {&id, 1}, 0, 1, until(soon())),
               StatusCode::kInvalidArgument, "a GPU of its own");
}

TEST_F(NcclLinkTest, WhatIsInProgressIsAskedForAgain) {
  fake.polls = 7;
  const nccl::UniqueId id = new_id();
  int pauses = 0;
  const Pause count = [&pauses] {
    ++pauses;
    return Status();
  };
  ASSERT_OK_AND_ASSIGN(const auto link, NcclLink::connect(fake_nccl(), {&id, 1}, 0, 1, count));
  EXPECT_GE(pauses, 7);
  EXPECT_OK(link->settle("ask", nccl::Code::kSuccess, count));
  EXPECT_FAILS(link->settle("ask", nccl::Code::kRemoteError, count), StatusCode::kPeerLost,
               "ask: NCCL reported 'remote error': the fake was told to fail");
  // NCCL never reports that the sent data has arrived, and the wait for that is bounded.
  fake.polls = 1'000'000'000;
  link->leave(until(deadline_in(10ms)));
  EXPECT_EQ(fake.left, 0);
  EXPECT_EQ(fake.aborted, 1);
}

TEST_F(NcclLinkTest, AnErrorThatComesLaterIsFoundByLooking) {
  const nccl::UniqueId id = new_id();
  ASSERT_OK_AND_ASSIGN(const auto link,
                       NcclLink::connect(fake_nccl(), {&id, 1}, 0, 1, until(soon())));
  EXPECT_OK(link->check("look"));
  fake.async_error = static_cast<int>(nccl::Code::kRemoteError);
  EXPECT_FAILS(link->check("look"), StatusCode::kPeerLost, "look: NCCL reported 'remote error'");
}

// Handles that NCCL still writes are not freed, and half made links end in a valid order. The
// stand-in counts violations.
TEST_F(NcclLinkTest, WhatIsHalfMadeEndsWithWhatItIsMadeOf) {
  for (const bool grows : {true, false}) {
    const nccl::UniqueId id = new_id();
    testing::on_threads(2, [&](int rank) {
      ASSERT_OK_AND_ASSIGN(const auto link,
                           NcclLink::connect(fake_nccl(), {&id, 1}, rank, 2, until(soon())));
      if (rank == 1) return link->leave(until(soon()));
      const auto wait = until(grows ? deadline_in(20ms) : soon());
      nccl::UniqueId to_grow{};
      if (grows) {
        ASSERT_OK_AND_ASSIGN(to_grow, link->get_grow_id());
      }
      EXPECT_EQ(
          (grows ? link->grow(&to_grow, 3, wait) : link->shrink({}, true, wait)).status().code(),
          grows ? StatusCode::kTimeout : StatusCode::kInvalidArgument);
      EXPECT_TRUE(link->has_ended());
    });
  }
}

TEST_F(NcclLinkTest, AShrunkOneIsRevokedFirstIfAnythingRan) {
  const nccl::UniqueId id = new_id();
  testing::on_threads(3, [&](int rank) {
    ASSERT_OK_AND_ASSIGN(const auto link,
                         NcclLink::connect(fake_nccl(), {&id, 1}, rank, 3, until(soon())));
    if (rank == 1) return;
    link->revoke();
    EXPECT_TRUE(link->is_revoked());
    link->revoke();
    EXPECT_FALSE(link->has_ended()) << "twice is once";
    EXPECT_OK(link->shrink({1}, true, until(soon())));
    EXPECT_FALSE(link->has_ended());
    link->leave(until(soon()));
  });
  EXPECT_EQ(fake.revoked, 2);
  EXPECT_EQ(fake.left, 0) << "what was revoked has no orderly end";
}

// The rank waits for another that does not shrink.
TEST_F(NcclLinkTest, AShrunkOneThatNobodyElseMakesIsGivenUp) {
  const nccl::UniqueId id = new_id();
  testing::on_threads(3, [&](int rank) {
    ASSERT_OK_AND_ASSIGN(const auto link,
                         NcclLink::connect(fake_nccl(), {&id, 1}, rank, 3, until(soon())));
    if (rank > 0) return;
    EXPECT_FAILS(link->shrink({2}, false, until(deadline_in(20ms))), StatusCode::kTimeout, "");
    EXPECT_TRUE(link->has_ended());
  });
}

TEST_F(NcclLinkTest, MemoryIsGivenBackAndTakenAgainAtAllRanks) {
  const nccl::UniqueId id = new_id();
  testing::on_threads(2, [&](int rank) {
    ASSERT_OK_AND_ASSIGN(const auto link,
                         NcclLink::connect(fake_nccl(), {&id, 1}, rank, 2, until(soon())));
    for (int turn = 0; turn < 2; ++turn) {
      EXPECT_TRUE(link->can_suspend());
      ASSERT_OK(link->suspend(until(soon())));
      EXPECT_TRUE(link->is_suspended());
      ASSERT_OK(link->resume(until(soon())));
      EXPECT_FALSE(link->is_suspended());
    }
    link->leave(until(soon()));
  });
  EXPECT_EQ(fake.suspended, 4);
  EXPECT_EQ(fake.resumed, 4);
  EXPECT_EQ(fake.left, 2);
}

// The other rank does not call suspend(). A half suspended link has no orderly end, and cannot be
// shrunk.
TEST_F(NcclLinkTest, WhatIsSuspendedEndsAtOnce) {
  for (const bool revokes : {true, false}) {
    const nccl::UniqueId id = new_id();
    testing::on_threads(2, [&](int rank) {
      ASSERT_OK_AND_ASSIGN(const auto link,
                           NcclLink::connect(fake_nccl(), {&id, 1}, rank, 2, until(soon())));
      if (rank == 1) return link->leave(until(soon()));
      EXPECT_FAILS(link->suspend(until(deadline_in(20ms))), StatusCode::kTimeout, "");
      EXPECT_TRUE(link->is_suspended());
      if (revokes) {
        link->revoke();
      } else {
        link->leave(until(soon()));
      }
      EXPECT_TRUE(link->has_ended());
    });
  }
  EXPECT_EQ(fake.left, 2);
  EXPECT_EQ(fake.aborted, 2);
  EXPECT_EQ(fake.revoked, 0);
}

TEST_F(NcclLinkTest, SomeLibrariesHaveNoMemoryToGiveBack) {
  const nccl::UniqueId id = new_id();
  ASSERT_OK_AND_ASSIGN(const auto link,
                       NcclLink::connect(fake_nccl(), {&id, 1}, 0, 1, until(soon())));
  fake.keeps_memory = true;
  EXPECT_FALSE(link->can_suspend());
  testing::fresh_fake_nccl(kFakeNcclWithoutGrow);
  ASSERT_OK_AND_ASSIGN(const auto older, NcclLink::connect(fake_nccl(kFakeNcclWithoutGrow),
                                                           {&id, 1}, 0, 1, until(soon())));
  EXPECT_FALSE(older->can_suspend());
}

}  // namespace
}  // namespace ffdl::comm
