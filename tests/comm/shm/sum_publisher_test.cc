#include "comm/shm/sum_publisher.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "ffdl/store.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using testing::on_each;
using testing::soon;

// Tests the publisher; the subscriber's test checks the received sums. The members use the plainest
// back end.
class SumPublisherTest : public ::testing::Test {
 protected:
  const uint64_t small_ = base::kSumRingBytesMin;
  const testing::Ranks ranks_ = make_local_communicators(4, testing::members_named(3)).value();
  const std::unique_ptr<Store> store_ = open_store("mem://", system_runtime()).value();
};

TEST_F(SumPublisherTest, TheStoreKnowsTheRingWhileItIsOpen) {
  const World& world = ranks_[0]->world();
  on_each(ranks_, [&](Communicator& communicator, int) {
    ASSERT_OK_AND_ASSIGN(auto publisher, SumPublisher::open(communicator, *store_, small_, soon()));
    const auto entry = store_->get(ring_key(world));
    ASSERT_OK(entry);
    ASSERT_OK_AND_ASSIGN(const shm::Segment ring,
                         open_ring(shm::segment_place_of(entry->value), world));
    ASSERT_OK(communicator.barrier(soon()));
    const RingView view(ring.data(), config_of(ring));
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(view.words(rank).state.load(), RingState::kOpen);
      EXPECT_TRUE(shm::role_is_held(ring.fd(), shm::learner_role(rank)));
    }
    ASSERT_OK(communicator.barrier(soon()));
    publisher.reset();
    ASSERT_OK(communicator.barrier(soon()));
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(view.words(rank).state.load(), RingState::kLeft);
    }
  });
  EXPECT_EQ(store_->list("")->size(), 0U);
}

TEST_F(SumPublisherTest, OptionsOutOfRangeAreRefusedBeforeAnythingIsSent) {
  for (const uint64_t bytes : {uint64_t{0}, base::kSumRingBytesMin + 1, UINT64_MAX}) {
    EXPECT_FAILS(SumPublisher::open(*ranks_[0], *store_, bytes, soon()),
                 StatusCode::kInvalidArgument, "ring_bytes is");
  }
  on_each(ranks_, [](Communicator& communicator, int) { EXPECT_OK(communicator.barrier(soon())); });
}

TEST_F(SumPublisherTest, AllOpenOrNoneAndTheCommunicatorLivesOn) {
  on_each(ranks_, [&](Communicator& communicator, int rank) {
    const uint64_t ring_bytes = rank == 1 ? 2 * small_ : small_;
    const auto opened = SumPublisher::open(communicator, *store_, ring_bytes, soon());
    if (rank == 1) {
      EXPECT_FAILS(opened, StatusCode::kInvalidArgument, "131072 at rank 1 and 65536 at rank 0");
    } else {
      EXPECT_FAILS(opened, StatusCode::kUnavailable, "rank 1 'm1' failed");
    }
    EXPECT_OK(communicator.barrier(soon()));
  });
  EXPECT_EQ(store_->list("")->size(), 0U);
}

// No subscriber could find the ring, since the folder of its store is gone.
TEST_F(SumPublisherTest, WithoutTheFirstThereIsNoRing) {
  auto folder = std::make_unique<TempFolder>();
  const auto store = open_store("file://" + folder->path(), system_runtime()).value();
  folder.reset();
  on_each(ranks_, [&](Communicator& communicator, int rank) {
    const auto opened = SumPublisher::open(communicator, *store, small_, soon());
    if (rank == 0) {
      EXPECT_FAILS(opened, StatusCode::kUnavailable, "does its folder exist");
    } else {
      EXPECT_FAILS(opened, StatusCode::kUnavailable, "rank 0 'm0' could not create the ring");
    }
    EXPECT_OK(communicator.barrier(soon()));
  });
}

}  // namespace
}  // namespace ffdl::comm
