#include "ffdl/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "support/guarded_device.h"
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
  // Saves the state of a step.
  Result<Checkpoint> save(uint64_t step, const std::string& job = "job") {
    weights_.assign(1000, static_cast<float>(step));
    steps_ = static_cast<int64_t>(step);
    return save_checkpoint(options_, buffers(), step, job);
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
  EXPECT_FAILS(save(1, "a/b"), StatusCode::kInvalidArgument, "a job's name");
  ASSERT_OK(save(7));
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

// Weights alone, without the rest of a training's state.
TEST_F(CheckpointTest, NamedTensorsAreLoadedAlone) {
  ASSERT_OK(save(7));
  weights_.assign(1000, -1);
  steps_ = -1;
  const auto load_as = [&](std::vector<std::string> names, std::vector<Buffer> into) {
    options_.names = std::move(names);
    return load_checkpoint(options_, into).status();
  };
  const Buffer weights = buffers()[0];
  const Buffer steps = buffers()[1];
  EXPECT_OK(load_as({"steps"}, {steps}));
  EXPECT_EQ(steps_, 7);
  EXPECT_EQ(weights_, std::vector<float>(1000, -1)) << "nobody asked for it";
  steps_ = -1;
  EXPECT_OK(load_as({"steps", "weights"}, {steps, weights}));
  EXPECT_EQ(steps_, 7);
  EXPECT_EQ(weights_, std::vector<float>(1000, 7));
  EXPECT_FAILS(load_as({"bias"}, {steps}), StatusCode::kInvalidArgument,
               "it has no 'bias', but 2 tensors, the first of them 'weights'");
  EXPECT_FAILS(load_as({"weights"}, {{weights_.data(), 10}}), StatusCode::kInvalidArgument,
               "it has 'weights' of 1000 float32, but the given tensor has 10 float32");
  EXPECT_FAILS(load_as({}, {steps}), StatusCode::kInvalidArgument, "this model has 'state.0'");
}

// Another process knows the names that the next checkpoint gets, and has placed a link to a file of
// this user at each of them.
TEST_F(CheckpointTest, WritesThroughNoLink) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint first, save(7));
  std::vector<std::string> names;  // of its files
  for (const auto& entry : std::filesystem::directory_iterator(first.folder)) {
    names.push_back(entry.path().filename().string());
  }
  ASSERT_EQ(names.size(), 3U) << "a shard, a manifest and a mark";
  std::vector<std::string> links;  // also the names of unfinished files
  for (const std::string& name : names) {
    links.push_back(name);
    links.push_back(name + ".unfinished");
    links.push_back(name + ".00000.unfinished");
  }
  const std::string own = temp_.write("own", "mine");
  for (const std::string& name : links) {
    std::filesystem::remove_all(options_.folder);
    std::filesystem::create_directories(first.folder);
    std::filesystem::create_symlink(own, first.folder + "/" + name);
    ASSERT_OK(save(7));
    EXPECT_EQ(std::filesystem::file_size(own), 4U) << name;
    for (const std::string& file : names) {
      if (file.starts_with("published-")) continue;  // the next mark has another number
      EXPECT_FALSE(std::filesystem::is_symlink(first.folder + "/" + file)) << name;
    }
    ASSERT_OK(load_checkpoint(options_, buffers()));
  }
  std::filesystem::remove_all(first.folder);
  std::filesystem::create_directories(temp_.file("elsewhere"));
  std::filesystem::create_symlink(temp_.file("elsewhere"), first.folder);
  EXPECT_FAILS(save(7), StatusCode::kUnavailable, "its folder is a link");
  EXPECT_TRUE(std::filesystem::is_empty(temp_.file("elsewhere")));
}

// The user may name the folder of checkpoints by a link.
TEST_F(CheckpointTest, TheFolderMayBeALink) {
  std::filesystem::create_directories(temp_.file("disk"));
  std::filesystem::create_symlink(temp_.file("disk"), options_.folder);
  ASSERT_OK(save(7));
  ASSERT_OK(load_checkpoint(options_, buffers()));
}

TEST_F(CheckpointTest, TheLastAndTheBestStay) {
  double metric = 0;
  options_.metric = [&] { return metric; };
  options_.keep_best = 1;
  for (uint64_t step = 1; step <= 6; ++step) {
    metric = step == 2 ? 0 : 1;
    ASSERT_OK(save(step));
    EXPECT_EQ(folders(), step < 4 ? std::min<size_t>(step, 2) : 3U) << step;
  }
  ASSERT_OK_AND_ASSIGN(const Checkpoint loaded, load_checkpoint(options_, buffers()));
  EXPECT_EQ(loaded.step, 6U);
}

// Saves weights in a device's memory, which the processor cannot touch, and a counter in the host's
// memory. Earlier work of the default stream comes first.
TEST_F(CheckpointTest, OfADevicesMemory) {
  const auto late = std::make_shared<testing::LateStream>();
  testing::GuardedDevice device(late);
  constexpr size_t kCount = 1'500'000;  // some slices, the last one short
  const testing::GuardedMemory held(kCount * sizeof(float));
  auto* const there = static_cast<float*>(testing::GuardedMemory::reach(held.data()));
  int64_t steps = 7;
  const std::vector<Buffer> tensors = {{held.data(), kCount}, {&steps, 1, DType::kInt64}};
  late->give([&] { std::iota(there, there + kCount, 1.0F); });
  CheckpointOptions of_device = options_;
  of_device.device = -1;
  of_device.devices = &device;
  ASSERT_OK(save_checkpoint(of_device, tensors, 7));

  weights_.assign(kCount, 0);
  steps_ = 0;
  ASSERT_OK_AND_ASSIGN(const Checkpoint loaded, load_checkpoint(options_, buffers()));
  std::vector<float> expected(kCount);
  std::iota(expected.begin(), expected.end(), 1.0F);
  EXPECT_TRUE(weights_ == expected);
  EXPECT_EQ(steps_, 7);
  // The same state in the host's memory makes the same checkpoint.
  ASSERT_OK_AND_ASSIGN(const Checkpoint again, save_checkpoint(options_, buffers(), 7));
  EXPECT_EQ(again.folder, loaded.folder);

  late->give([&] { std::fill_n(there, kCount, -1.0F); });
  steps = 0;
  ASSERT_OK(load_checkpoint(of_device, tensors));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), there));
  EXPECT_EQ(steps, 7);
}

// Uses the device of this machine. Runs only if the machine has no GPU.
TEST_F(CheckpointTest, WithoutAGpuItSaysSo) {
  if (base::device_in_use().ok()) GTEST_SKIP() << "this machine has a GPU";
  options_.device = -1;
  EXPECT_EQ(save(1).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(load_checkpoint(options_, buffers()).status().code(), StatusCode::kUnimplemented);
}

TEST_F(CheckpointTest, WithoutATensorThereIsNothingToSave) {
  EXPECT_FAILS(save_checkpoint(options_, {}, 1), StatusCode::kInvalidArgument,
               "there is no tensor");
}

TEST_F(CheckpointTest, WhatCannotBeIsSaid) {
  options_.keep_last = 0;
  EXPECT_FAILS(save(1), StatusCode::kInvalidArgument, "keep_last");
  options_.keep_last = 1;
  options_.names = {"weights"};
  EXPECT_FAILS(save(1), StatusCode::kInvalidArgument, "1 names for 2");
  options_.folder = "";
  EXPECT_FAILS(save(1), StatusCode::kInvalidArgument, "name a folder");
}

}  // namespace
}  // namespace ffdl
