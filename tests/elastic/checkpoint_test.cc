#include "ffdl/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    options_.folder = temp_.file("checkpoints");
    options_.names = {"weights", "steps"};
  }
  CheckpointState state(uint64_t step) {
    weights_.assign(1000, static_cast<float>(step));
    steps_ = static_cast<int64_t>(step);
    return {"job", step, buffers()};
  }
  std::vector<Buffer> buffers() {
    return {{weights_.data(), weights_.size()}, {&steps_, 1, DType::kInt64}};
  }
  size_t folders() const {
    using Entries = std::filesystem::directory_iterator;
    return static_cast<size_t>(std::distance(Entries(options_.folder), Entries()));
  }

  const TempFolder temp_;
  CheckpointOptions options_;
  std::vector<float> weights_;
  int64_t steps_ = 0;
};

TEST_F(CheckpointTest, WhatWasSavedIsLoaded) {
  EXPECT_FAILS(load_checkpoint(options_, buffers()), StatusCode::kNotFound, "none was published");
  options_.note = [] { return std::string("\0\xff of mine", 10); };
  options_.metric = [] { return 0.5; };
  auto bad = state(1);
  bad.job = "a/b";
  EXPECT_FAILS(save_checkpoint(options_, bad), StatusCode::kInvalidArgument, "a job's name");
  ASSERT_OK(save_checkpoint(options_, state(7)));
  weights_.assign(1000, -1);
  steps_ = -1;
  ASSERT_OK_AND_ASSIGN(const Checkpoint loaded, load_checkpoint(options_, buffers()));
  EXPECT_EQ(weights_, std::vector<float>(1000, 7));
  EXPECT_EQ(steps_, 7);
  EXPECT_EQ(loaded.step, 7U);
  EXPECT_EQ(loaded.job, "job");
  EXPECT_EQ(loaded.metric, 0.5);
  EXPECT_EQ(loaded.note, options_.note());
  EXPECT_TRUE(std::filesystem::is_directory(loaded.folder));
}

TEST_F(CheckpointTest, TheLastAndTheBestStay) {
  double metric = 0;
  options_.metric = [&] { return metric; };
  options_.keep_best = 1;
  for (uint64_t step = 1; step <= 6; ++step) {
    metric = step == 2 ? 0 : 1;
    ASSERT_OK(save_checkpoint(options_, state(step)));
    EXPECT_EQ(folders(), step < 4 ? std::min<size_t>(step, 2) : 3U) << step;
  }
  ASSERT_OK_AND_ASSIGN(const Checkpoint loaded, load_checkpoint(options_, buffers()));
  EXPECT_EQ(loaded.step, 6U);
}

TEST_F(CheckpointTest, WhatCannotBeIsSaid) {
  const auto one = state(1);
  options_.keep_last = 0;
  EXPECT_FAILS(save_checkpoint(options_, one), StatusCode::kInvalidArgument, "keep_last");
  options_.keep_last = 1;
  options_.names = {"weights"};
  EXPECT_FAILS(save_checkpoint(options_, one), StatusCode::kInvalidArgument, "1 names for 2");
  options_.folder = "";
  EXPECT_FAILS(save_checkpoint(options_, one), StatusCode::kInvalidArgument, "name a folder");
}

}  // namespace
}  // namespace ffdl
