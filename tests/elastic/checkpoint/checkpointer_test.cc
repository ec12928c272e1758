#include "elastic/checkpoint/checkpointer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "ffdl/log.h"
#include "support/memory_files.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

using testing::MemoryFiles;

// Memory of a GPU that has failed.
class BrokenMemory final : public UserMemory {
 public:
  Status follow() override { return {}; }
  Status visit(std::span<const Buffer>, Access, const Body&) override {
    return Status(StatusCode::kInternal, "the bus is broken");
  }
};

// Two members of one world. The test carries their messages; the record is a variable.
class CheckpointerTest : public ::testing::Test {
 protected:
  CheckpointerTest() : weights_(1000, 1.5F) {
    set_log_sink([](LogLevel, std::string_view) {});
    world_.generation = 4;
    world_.lineage = 2;
    world_.members = {{"a", 1}, {"b", 1}};
    options_.folder = "/f";
    options_.every_steps = 10;
    options_.files = &files_;
    make();
  }
  ~CheckpointerTest() override {
    a_.reset();
    b_.reset();
    set_log_sink(nullptr);
  }

  void make() {
    a_ = one();
    b_ = one();
  }
  std::unique_ptr<Checkpointer> one() { return one(memory_); }
  std::unique_ptr<Checkpointer> one(UserMemory& memory) {
    Checkpointer::Job job;
    job.name = "job";
    job.is_here = [this](const Member& member) { return member.id != "b" || b_is_here_; };
    job.world = [this] {
      ++looks_;
      const std::lock_guard lock(mutex_);
      return world_;
    };
    job.newest = [this] {
      const std::lock_guard lock(mutex_);
      return record_;
    };
    job.publish = [this](const CheckpointPointer& checkpoint, Time) {
      const std::lock_guard lock(mutex_);
      if (++publications_ >= refuses_from_) return Status(StatusCode::kConflict, "a newer one");
      record_ = checkpoint;
      return Status();
    };
    return std::make_unique<Checkpointer>(options_, describe_tensors(state(), {}).value(),
                                          system_runtime(), memory, std::move(job));
  }
  std::vector<Buffer> state() { return {{weights_.data(), weights_.size()}}; }

  // Makes one step of both members, as a session does.
  void step(uint64_t number) {
    const std::vector<CheckpointWord> words = {a_->word(number), b_->word(number)};
    for (int rank = 0; rank < 2; ++rank) {
      Checkpointer& one = rank == 0 ? *a_ : *b_;
      one.hear(world_, words);
      one.stable(number - 1);
      World mine = world_;
      mine.rank = rank;
      one.take({&mine, number, 77, state(), [] { return std::vector<std::byte>(3); }});
    }
  }
  std::optional<CheckpointPointer> record() {
    const std::lock_guard lock(mutex_);
    return record_;
  }
  bool is_settled() { return a_->is_idle() && b_->is_idle(); }
  bool has_looked_again() {
    const int before = looks_;
    return comes_true([&] { return looks_ >= before + 6; });
  }

  MemoryFiles files_;
  HostMemory memory_;
  CheckpointOptions options_;
  std::vector<float> weights_;
  std::mutex mutex_;
  World world_;
  std::optional<CheckpointPointer> record_;
  int publications_ = 0;
  int refuses_from_ = 1 << 20;
  std::atomic<bool> b_is_here_ = true;
  std::atomic<int> looks_ = 0;
  std::unique_ptr<Checkpointer> a_;
  std::unique_ptr<Checkpointer> b_;
};

TEST_F(CheckpointerTest, ItIsPublishedOnlyWhenItsStepIsStable) {
  for (uint64_t number = 8; number <= 10; ++number) step(number);
  EXPECT_TRUE(comes_true([&] { return a_->is_written() && b_->is_written(); }));
  EXPECT_FALSE(a_->is_idle());
  EXPECT_TRUE(has_looked_again());
  EXPECT_FALSE(record()) << "step 10 is not stable";
  weights_.assign(1000, 9);  // the copy does not change
  step(11);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  ASSERT_TRUE(record());
  EXPECT_EQ(record()->lineage, 2U);
  EXPECT_EQ(record()->generation, 4U);
  EXPECT_EQ(record()->step, 10U);
  ASSERT_OK_AND_ASSIGN(const auto loaded, a_->load(record(), state()));
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->step, 10U);
  EXPECT_EQ(loaded->participants.size(), 3U);
  EXPECT_EQ(weights_, std::vector<float>(1000, 1.5F));
  EXPECT_EQ(a_->stats().published, 1U);
  EXPECT_EQ(b_->stats().published, 1U);
}

TEST_F(CheckpointerTest, OneIsUnderWayAtATime) {
  options_.every_steps = 1;
  make();
  step(1);
  EXPECT_NE(a_->word(2).pending, 0U);
  step(2);  // the one of step 1 cannot have been published before
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  EXPECT_EQ(record()->step, 1U);
}

TEST_F(CheckpointerTest, OneIsTakenWhenItsTimeHasCome) {
  options_.every_steps = 0;
  options_.every = std::chrono::hours(1);
  make();
  EXPECT_EQ(a_->word(1).wants, 0U);
  options_.every = std::chrono::nanoseconds(1);
  b_ = one();  // one member with a clock ahead is enough
  step(1);
  EXPECT_EQ(a_->word(2).pending, 1U);
  step(2);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  EXPECT_EQ(record()->step, 1U);
}

// A member with a late view of the record learns of the publication from another member.
TEST_F(CheckpointerTest, OneThatAnotherSawPublishedIsDone) {
  step(10);
  EXPECT_TRUE(comes_true([&] { return a_->is_written() && b_->is_written(); }));
  b_->hear(world_, std::vector<CheckpointWord>{{0, 0, 10}, {0, 10, 0}});
  EXPECT_TRUE(comes_true([&] { return b_->is_idle(); }));
  EXPECT_EQ(b_->stats().published, 1U);
  EXPECT_OK(b_->stats().last);
}

// The record changes between the publication and the removal of old checkpoints. The checkpoints of
// the other member stay.
TEST_F(CheckpointerTest, WhoIsOvertakenRemovesNothing) {
  options_.keep_last = 1;
  make();
  step(10);
  step(11);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  const std::string first = "/f/" + folder_name({"job", 2, 4, 10, 77});
  EXPECT_TRUE(files_.has_folder(first));
  refuses_from_ = publications_ + 2;  // the record takes step 20, and has a newer one afterwards
  step(20);
  step(21);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  EXPECT_EQ(record()->step, 20U);
  EXPECT_TRUE(files_.has_folder(first));
}

TEST_F(CheckpointerTest, OneIsTakenOnRequest) {
  options_.every_steps = 0;
  make();
  step(1);
  EXPECT_TRUE(is_settled());
  b_->request();
  step(2);
  step(3);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  EXPECT_EQ(record()->step, 2U);
}

TEST_F(CheckpointerTest, ADiskThatIsFullEndsTheOneUnderWayAtAll) {
  files_.fail_from(1, StatusCode::kExhausted);
  step(10);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  EXPECT_FAILS(a_->stats().last, StatusCode::kExhausted,
               "write checkpoint '/f/job.000000000010.l2.g4.");
  files_.work();
  step(20);
  step(21);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  EXPECT_EQ(record()->step, 20U);
  EXPECT_OK(a_->stats().last);
}

// The disk has room for one and a half checkpoints. The bytes of a failed one must be removed.
TEST_F(CheckpointerTest, WhatAFullDiskStoppedLeavesItsRoomToTheNext) {
  options_.keep_last = 1;
  make();
  step(10);
  step(11);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  const uint64_t one = files_.bytes_used();
  const std::vector<std::string> before = files_.paths();
  files_.limit(one + one / 2);
  step(20);
  EXPECT_TRUE(comes_true([&] { return a_->is_idle() || b_->is_idle(); }));
  step(21);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  EXPECT_EQ(a_->stats().dropped + b_->stats().dropped, 2U);
  EXPECT_EQ(files_.paths(), before);
  EXPECT_FALSE(files_.has_folder("/f/" + folder_name({"job", 2, 4, 20, 77})));
  files_.limit(2 * one + 100);
  step(30);
  step(31);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  EXPECT_EQ(record()->step, 30U);
}

// The writer of these files was killed. The next checkpoint needs their room.
TEST_F(CheckpointerTest, WhatADeadWriterLeftGoesBeforeTheNextIsWritten) {
  const std::string left = "/f/" + folder_name({"job", 2, 3, 5, 76});
  const std::string others = "/f/" + folder_name({"other", 2, 3, 5, 76});
  for (const std::string& folder : {left, others}) {
    ASSERT_OK(files_.make_folder(folder));
    for (const std::string& name : {shard_name(0, 3), shard_name(1, 3) + ".unfinished"}) {
      ASSERT_OK_AND_ASSIGN(const auto file, files_.create(path_in(folder, name)));
      ASSERT_OK(file->write(0, std::vector<std::byte>(6000)));
    }
  }
  files_.limit(files_.bytes_used() + 6000);  // too little while they are there
  step(10);
  step(11);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  ASSERT_TRUE(record());
  EXPECT_EQ(record()->step, 10U);
  EXPECT_FALSE(files_.has_folder(left));
  EXPECT_TRUE(files_.exists(path_in(others, shard_name(0, 3))));
}

// The member that could not write reports so with the next step.
TEST_F(CheckpointerTest, WhatOneCannotWriteTheOtherGivesUp) {
  MemoryFiles full;
  full.fail_from(1, StatusCode::kExhausted);
  options_.files = &full;
  b_ = one();
  step(10);
  EXPECT_TRUE(comes_true([&] { return b_->is_idle() && a_->is_written(); }));
  EXPECT_TRUE(has_looked_again());
  EXPECT_FALSE(a_->is_idle());
  step(11);
  EXPECT_TRUE(comes_true([&] { return a_->is_idle(); }));
  EXPECT_FALSE(record());
  EXPECT_EQ(a_->stats().last.code(), StatusCode::kPeerLost);
  b_.reset();
}

TEST_F(CheckpointerTest, WhatOneCannotCopyTheOtherGivesUp) {
  BrokenMemory broken;
  b_ = one(broken);
  step(10);
  EXPECT_TRUE(b_->is_idle());
  EXPECT_EQ(b_->stats().dropped, 1U);
  EXPECT_FAILS(b_->stats().last, StatusCode::kInternal,
               "write a checkpoint in '/f': the bus is broken");
  EXPECT_FALSE(a_->is_idle());
  step(11);
  EXPECT_TRUE(comes_true([&] { return a_->is_idle(); }));
  EXPECT_FALSE(record());
  b_.reset();
}

TEST_F(CheckpointerTest, OneWhoseAuthorDiedBeforeItsShardIsDropped) {
  MemoryFiles lost;
  options_.files = &lost;
  b_ = one();
  step(10);
  EXPECT_TRUE(comes_true([&] { return a_->is_written(); }));
  EXPECT_FALSE(a_->is_idle());
  b_is_here_ = false;
  EXPECT_TRUE(comes_true([&] { return a_->is_idle(); }));
  EXPECT_EQ(a_->stats().last.code(), StatusCode::kPeerLost);
  b_.reset();
}

// The dead member has written its shard, so the checkpoint is not given up.
TEST_F(CheckpointerTest, TheSecondPublishesForADeadFirst) {
  step(10);
  EXPECT_TRUE(comes_true([&] { return a_->is_written() && b_->is_written(); }));
  a_.reset();
  {
    const std::lock_guard lock(mutex_);
    world_.members.erase(world_.members.begin());
  }
  b_->stable(10);
  EXPECT_TRUE(comes_true([&] { return b_->is_idle(); }));
  EXPECT_EQ(record()->step, 10U);
  ASSERT_OK_AND_ASSIGN(const auto loaded, b_->load(record(), state()));
  EXPECT_EQ(loaded->step, 10U);
}

// All members go back to the checkpoint of the last step. The job ends in the lineage that begins
// there.
TEST_F(CheckpointerTest, TheLastStepOfALineageNeedsACheckpointOfThatLineage) {
  for (uint64_t number = 9; number <= 11; ++number) step(number);
  ASSERT_TRUE(comes_true([&] { return record() && is_settled(); }));
  EXPECT_EQ(a_->last_word(10, 1).wants, 0U);
  {
    const std::lock_guard lock(mutex_);
    ++world_.lineage;
    ++world_.generation;
  }
  EXPECT_FALSE(a_->has_published(10));
  EXPECT_EQ(a_->last_word(10, 1).wants, 1U);
  EXPECT_EQ(a_->last_word(10, 1).published, 0U);
  EXPECT_EQ(a_->word(11).published, 0U);
}

TEST_F(CheckpointerTest, WhatAnotherLineageBeganIsNotPublished) {
  step(10);
  {
    const std::lock_guard lock(mutex_);
    world_.lineage = 3;
  }
  // A member that read the world before the change must not learn now that the step is stable.
  const int before = looks_;
  EXPECT_TRUE(comes_true([&] { return is_settled() || looks_ >= before + 6; }));
  a_->stable(10);
  EXPECT_TRUE(comes_true([&] { return is_settled(); }));
  EXPECT_FALSE(record());
}

}  // namespace
}  // namespace ffdl::elastic
