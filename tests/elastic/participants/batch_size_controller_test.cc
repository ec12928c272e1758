#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ffdl/tuning/batch_size.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

World world(int size, int rank) {
  World world;
  world.rank = rank;
  for (int i = 0; i < size; ++i) world.members.push_back({std::string(1, char('a' + i)), 1});
  return world;
}

// The members of one job, without a session.
class Members {
 public:
  explicit Members(int size, uint64_t samples = 64) {
    for (int rank = 0; rank < size; ++rank) {
      members_.push_back(BatchSizeController::create(samples).value());
    }
    change();
  }

  BatchSizeController& operator[](size_t rank) { return *members_[rank]; }

  void join(uint64_t samples = 64) {
    members_.push_back(BatchSizeController::create(samples).value());
    EXPECT_OK(members_.back()->restore(members_[0]->save()));
    change();
  }
  void leave(size_t rank) {
    members_.erase(members_.begin() + static_cast<ptrdiff_t>(rank));
    change();
  }
  // Makes one step and returns the next batch size, on which all members agree.
  uint64_t step() {
    const size_t bytes = members_[0]->record_bytes();
    std::vector<std::byte> records(bytes * members_.size());
    for (size_t rank = 0; rank < members_.size(); ++rank) {
      members_[rank]->write_record(std::span(records).subspan(rank * bytes, bytes));
    }
    for (auto& member : members_) member->applied(1, StepRecords(records, bytes, bytes));
    return samples();
  }
  uint64_t samples() {
    uint64_t sum = 0;
    for (auto& member : members_) {
      EXPECT_EQ(member->save(), members_[0]->save());
      sum += member->share();
    }
    EXPECT_EQ(sum, members_[0]->samples()) << "shares make one batch";
    return sum;
  }

 private:
  void change() {
    const auto size = static_cast<int>(members_.size());
    for (int rank = 0; rank < size; ++rank) {
      members_[static_cast<size_t>(rank)]->world_changed(world(size, rank));
    }
  }

  std::vector<std::unique_ptr<BatchSizeController>> members_;
};

TEST(BatchSizeController, WhatOneHasHeardIsTheBatchOfAllFromTheNextStepOn) {
  Members members(3);
  EXPECT_EQ(members.samples(), 64U);
  EXPECT_EQ(members[0].share(), 22U);
  members[1].want(100, 3);
  EXPECT_EQ(members.samples(), 64U) << "not before it was told";
  EXPECT_EQ(members.step(), 100U);
  EXPECT_EQ(members.step(), 100U);
  members[1].want(0, 0);
  EXPECT_EQ(members.step(), 100U) << "it stays";
}

TEST(BatchSizeController, TheLowestRankIsHeard) {
  Members members(3);
  members[2].want(30, 3);
  members[1].want(50, 3);
  EXPECT_EQ(members.step(), 50U);
  members[0].want(70, 3);
  EXPECT_EQ(members.step(), 70U);
}

TEST(BatchSizeController, ChangesWithTheSizeThatItIsFor) {
  Members members(2);
  members[0].want(128, 4);
  EXPECT_EQ(members.step(), 64U);
  members.join();
  EXPECT_EQ(members.step(), 64U);
  members.join();
  EXPECT_EQ(members.samples(), 128U) << "in the first step of four";
  members[0].want(32, 3);
  EXPECT_EQ(members.step(), 128U);
  members.leave(2);
  EXPECT_EQ(members.samples(), 32U);
  members.leave(0);  // leaves with its wish
  EXPECT_EQ(members.step(), 32U);
}

TEST(BatchSizeController, WhoIsNoMemberHasNoShare) {
  const auto batch = BatchSizeController::create(64).value();
  EXPECT_EQ(batch->share(), 0U);
  batch->world_changed(world(2, -1));
  EXPECT_EQ(batch->share(), 0U);
}

TEST(BatchSizeController, RecordsThatMakeNoSenseAreNotHeard) {
  const auto batch = BatchSizeController::create(64).value();
  batch->world_changed(world(1, 0));
  for (const uint64_t members : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    const uint64_t record[] = {~uint64_t{0}, members};
    const auto bytes = std::as_bytes(std::span(record));
    batch->applied(1, StepRecords(bytes, bytes.size(), bytes.size()));
    EXPECT_EQ(batch->samples(), 64U);
  }
}

TEST(BatchSizeController, WhatIsNoStateIsRefusedAndChangesNothing) {
  Members members(2);
  members[0].want(128, 4);
  members.step();
  const std::vector<std::byte> good = members[0].save();
  const auto fresh = BatchSizeController::create(7).value();
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{1};
    EXPECT_FAILS(fresh->restore(bad), StatusCode::kCorrupt, "restore a batch size");
    bad.resize(i);
    EXPECT_FAILS(fresh->restore(bad), StatusCode::kCorrupt, "restore a batch size");
    EXPECT_EQ(fresh->samples(), 7U);
  }
  EXPECT_OK(fresh->restore(good));
  EXPECT_EQ(fresh->samples(), 64U);
  fresh->world_changed(world(4, 0));
  EXPECT_EQ(fresh->samples(), 128U);
  EXPECT_FAILS(BatchSizeController::create(0), StatusCode::kInvalidArgument, "give 1 to");
}

}  // namespace
}  // namespace ffdl
