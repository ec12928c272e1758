#include "ps/learner/device_transfer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ffdl/log.h"
#include "support/device_learners.h"
#include "support/exit_code.h"
#include "support/fork_child.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::all_equal;
using testing::attach_device;
using testing::device_server_options;
using testing::DeviceLearners;
using testing::FailingDevice;
using testing::HostDevice;
using testing::HostPins;
using testing::kFloats;
using testing::soon;
using testing::StoppingDevice;
using testing::ThreadStream;
using testing::TrainStream;
using testing::try_attach_device;

TEST_F(DeviceLearners, TrainBesideTheirTransfers) {
  start();
  auto learner = attach_device(name_);
  EXPECT_EQ(learner->not_pinned(), "");
  EXPECT_GE(HostPins::of_this_process().bytes(), 2 * kFloats * sizeof(float));
  std::vector<float> weights[2] = {std::vector<float>(kFloats), std::vector<float>(kFloats)};
  std::vector<float> gradients[2] = {std::vector<float>(kFloats), std::vector<float>(kFloats)};
  constexpr uint64_t kMiniBatches = 200;
  uint64_t last_version = 0;
  std::atomic<int> torn = 0;
  ASSERT_OK(learner->start_pull(weights[0], PullMode::kSnapshot, stream_.get()));
  for (uint64_t i = 0; i < kMiniBatches; ++i) {
    ASSERT_OK_AND_ASSIGN(const uint64_t version, learner->finish_pull(soon()));
    EXPECT_GE(version, last_version);
    last_version = version;
    ASSERT_OK(learner->start_pull(weights[(i + 1) % 2], PullMode::kSnapshot, stream_.get()));
    stream_.run([&from = weights[i % 2], &gradient = gradients[i % 2], &torn] {
      if (!all_equal(from)) ++torn;
      std::ranges::fill(gradient, 1.0F);
    });
    if (i > 0) ASSERT_OK(learner->finish_push(soon()));
    ASSERT_OK(learner->start_push(gradients[i % 2], {.begin = i, .end = i + 1}, stream_.get()));
  }
  ASSERT_OK(learner->finish_push(soon()));
  ASSERT_OK(learner->finish_pull(soon()));
  ASSERT_OK(learner->detach(soon()));
  EXPECT_EQ(torn, 0);
  expect_weights(-float{kMiniBatches});
  EXPECT_EQ(server_->stats().partitions[0].samples, kMiniBatches);
  EXPECT_EQ(server_->stats().partitions[0].committed, kMiniBatches);
}

TEST_F(DeviceLearners, APushComesAfterWhatItsStreamWasGiven) {
  start();
  auto learner = attach_device(name_);
  std::vector<float> gradient(kFloats, 1'000.0F);
  std::latch computed(1);
  stream_.run([&] {
    computed.wait();
    std::ranges::fill(gradient, 2.0F);
  });
  ASSERT_OK(learner->start_push(gradient, {.begin = 0, .end = 4}, stream_.get()));
  EXPECT_FAILS(learner->finish_push(deadline_in(20ms)), StatusCode::kTimeout, "not done");
  EXPECT_EQ(published(), 0U);
  EXPECT_FAILS(learner->flush(soon()), StatusCode::kInvalidArgument, "finish_push() first");
  computed.count_down();
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, learner->finish_push(soon()));
  EXPECT_EQ(pushed, PushResult::kPublished);
  ASSERT_OK(learner->flush(soon()));
  expect_weights(-2);
}

TEST_F(DeviceLearners, APullComesAfterWhatItsStreamWasGiven) {
  start();
  const auto copies = std::make_shared<StoppingDevice::Copies>();
  copies->rest.count_down();
  auto learner = attach_device(name_, std::make_unique<StoppingDevice>(copies));
  std::vector<float> weights(kFloats, 7.0F);
  std::vector<float> seen(kFloats);
  std::latch computed(1);
  stream_.run([&] {
    computed.wait();
    seen = weights;
  });
  ASSERT_OK(learner->start_pull(weights, PullMode::kSnapshot, stream_.get()));
  EXPECT_FAILS(learner->finish_pull(deadline_in(20ms)), StatusCode::kTimeout, "not done");
  EXPECT_EQ(copies->count, 0);  // no shard is read before its copy can begin
  computed.count_down();
  ASSERT_OK(learner->finish_pull(soon()));
  EXPECT_EQ(seen, std::vector<float>(kFloats, 7.0F));
  EXPECT_EQ(weights, std::vector<float>(kFloats, 0.0F));
}

TEST_F(DeviceLearners, NothingIsPublishedBeforeItsCopyHasEnded) {
  start();
  const auto copies = std::make_shared<StoppingDevice::Copies>();
  auto learner = attach_device(name_, std::make_unique<StoppingDevice>(copies));
  ASSERT_OK(learner->start_push(ones_, {.begin = 0, .end = 1}, stream_.get()));
  copies->half.wait();
  EXPECT_FAILS(learner->finish_push(deadline_in(20ms)), StatusCode::kTimeout, "not done");
  EXPECT_EQ(published(), 0U);
  EXPECT_EQ(learner->committed(0), 0U);
  copies->rest.count_down();
  ASSERT_OK(learner->finish_push(soon()));
  ASSERT_OK(learner->flush(soon()));
  EXPECT_EQ(published(), 1U);
  expect_weights(-1);
}

// A fold runs while half of the weights are copied.
TEST_F(DeviceLearners, SnapshotsAreCopiedAgainWhenTheyHaveChanged) {
  for (const PullMode mode : {PullMode::kSnapshot, PullMode::kRelaxed}) {
    const testing::SegmentName name;
    start(device_server_options(name));
    const auto copies = std::make_shared<StoppingDevice::Copies>();
    auto learner = attach_device(name, std::make_unique<StoppingDevice>(copies));
    auto other = testing::attach(*server_);
    std::vector<float> weights(kFloats, 7.0F);
    ASSERT_OK(learner->start_pull(weights, mode, stream_.get()));
    copies->half.wait();
    ASSERT_OK(other->push(ones_, testing::next_sample(*other)));
    ASSERT_OK(other->flush(soon()));
    copies->rest.count_down();
    ASSERT_OK(learner->finish_pull(soon()));
    EXPECT_EQ(weights.back(), -1);
    EXPECT_EQ(weights.front(), mode == PullMode::kSnapshot ? -1 : 0);
    EXPECT_EQ(copies->count, mode == PullMode::kSnapshot ? 2 : 1);
  }
}

// A device on which every other copy lasts until the server has folded something.
class SlowDevice final : public HostDevice {
 public:
  explicit SlowDevice(const ParameterServer& server) : server_(server) {}
  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    if (count_++ % 2 == 1) return HostDevice::copy(to, from, bytes, stream);
    static_cast<ThreadStream*>(stream)->enqueue([=, this] {
      const uint64_t half = bytes / 2 / sizeof(float) * sizeof(float);
      std::memmove(to, from, half);
      const uint64_t version = server_.version();
      while (server_.version() == version) std::this_thread::yield();
      std::memmove(static_cast<std::byte*>(to) + half, static_cast<const std::byte*>(from) + half,
                   bytes - half);
    });
    return {};
  }

 private:
  const ParameterServer& server_;
  int count_ = 0;
};

TEST_F(DeviceLearners, SnapshotsAreWholeWhileTheServerFoldsAsFastAsItCan) {
  ParameterServerOptions options = device_server_options(name_);
  options.parameters = 100'000;
  start(options);
  auto learner = attach_device(name_, std::make_unique<SlowDevice>(*server_));
  StopSource stop;
  std::thread pusher([&] {
    auto other = testing::attach(*server_);
    const std::vector<float> ones(options.parameters, 1.0F);
    while (!stop.get_token().stop_requested()) {
      ASSERT_OK(other->push(ones, testing::next_sample(*other)));
    }
    ASSERT_OK(other->detach(soon()));
  });
  std::vector<float> weights(options.parameters);
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    EXPECT_OK(learner->start_pull(weights, PullMode::kSnapshot, stream_.get()));
    const Result<uint64_t> version = learner->finish_pull(soon());
    EXPECT_OK(version);
    EXPECT_TRUE(all_equal(weights)) << "pull " << i;
    EXPECT_GE(-weights[0], version.ok() ? static_cast<float>(*version) : 0);
  }
  stop.request_stop();
  pusher.join();
}

// The server folds nothing yet. The first gradient is published, the second waits in its slot, the
// third is added to it.
TEST_F(DeviceLearners, GradientsAreAddedUpWhileTheServerIsLate) {
  server_ = testing::create_server(device_server_options(name_));
  auto learner = attach_device(name_);
  std::vector<float> gradient(kFloats);
  for (uint64_t i = 0; i < 4; ++i) {
    stream_.run([&gradient, i] { std::ranges::fill(gradient, static_cast<float>(i + 1)); });
    const std::vector<SampleRange> samples = {{.begin = i, .end = i + 1},
                                              {.partition = 1, .begin = 2 * i, .end = 2 * i + 2}};
    ASSERT_OK(learner->start_push(gradient, samples, stream_.get()));
    ASSERT_OK_AND_ASSIGN(const PushResult pushed, learner->finish_push(soon()));
    EXPECT_EQ(pushed, i == 0 ? PushResult::kPublished : PushResult::kAccumulated);
  }
  ASSERT_OK(server_->start());
  ASSERT_OK(learner->flush(soon()));
  expect_weights(-10);
  EXPECT_EQ(published(), 2U);
  EXPECT_EQ(server_->stats().partitions[0].samples, 4U);
  EXPECT_EQ(server_->stats().partitions[1].samples, 8U);
}

TEST_F(DeviceLearners, GradientsOf16Bits) {
  for (const auto type : {DType::kFloat32, DType::kBFloat16}) {
    const testing::SegmentName name;
    ParameterServerOptions options = device_server_options(name);
    options.gradient_type = type;
    start(options);
    auto learner = attach_device(name);
    ASSERT_OK(learner->start_push(ones_, {.begin = 0, .end = 1}, stream_.get()));
    ASSERT_OK(learner->finish_push(soon()));
    const std::vector<uint16_t> twos(kFloats, 0x4000);  // the upper half of 2.0F
    ASSERT_OK(learner->start_push(Gradient::dense(DType::kBFloat16, twos), {.begin = 1, .end = 2},
                                  stream_.get()));
    ASSERT_OK(learner->finish_push(soon()));
    const std::vector<SampleRange> samples = {{.begin = 2, .end = 5},
                                              {.partition = 1, .begin = 0, .end = 4}};
    ASSERT_OK(learner->start_push(Gradient::dense(DType::kBFloat16, twos), samples, stream_.get()));
    ASSERT_OK(learner->finish_push(soon()));
    ASSERT_OK(learner->flush(soon()));
    expect_weights(-5);
    EXPECT_EQ(learner->gradient_type(), type);
    EXPECT_EQ(server_->stats().partitions[0].samples, 5U);
    EXPECT_EQ(server_->stats().partitions[1].samples, 4U);
  }
}

// Kills its process with SIGKILL in the middle of the copy of a gradient, or when it has ended.
class DyingDevice final : public HostDevice {
 public:
  explicit DyingDevice(bool in_copy) : in_copy_(in_copy) {}
  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    if (!in_copy_) return HostDevice::copy(to, from, bytes, stream);
    static_cast<ThreadStream*>(stream)->enqueue([=] {
      std::memmove(to, from, bytes / 2);
      kill(getpid(), SIGKILL);
    });
    return {};
  }
  Status wait(base::DeviceStream stream) override {
    FFDL_RETURN_IF_ERROR(HostDevice::wait(stream));
    kill(getpid(), SIGKILL);
    return {};
  }

 private:
  const bool in_copy_;
};

int push_and_die(const std::string& name, bool in_copy) {
  auto learner = try_attach_device(name, std::make_unique<DyingDevice>(in_copy));
  if (!learner.ok()) return 1;
  const std::vector<float> gradient(kFloats, 1'000.0F);
  if (!(*learner)->start_push(gradient, {.begin = 0, .end = 3}).ok()) return 2;
  static_cast<void>((*learner)->finish_push(soon()));
  return 3;
}

// This process has one thread when it forks. The slot of the dead learner is the only one.
TEST(DeviceLearnerDeath, BeforeThePublicationPushesNothing) {
  for (const bool in_copy : {true, false}) {
    const testing::SegmentName name;
    ParameterServerOptions options = device_server_options(name);
    options.learners_max = 1;
    const auto server = testing::create_server(options);
    const pid_t child = testing::fork_child();
    if (child == 0) _exit(push_and_die(name, in_copy));
    ASSERT_EQ(testing::exit_code(child), -SIGKILL);
    ASSERT_OK(server->start());
    auto successor = attach_device(name);
    EXPECT_EQ(successor->committed(0), 0U);
    const std::vector<float> ones(kFloats, 1.0F);
    ASSERT_OK(successor->start_push(ones, {.begin = 0, .end = 3}));
    ASSERT_OK(successor->finish_push(soon()));
    ASSERT_OK(successor->flush(soon()));
    for (const float weight : server->weights()) ASSERT_EQ(weight, -1);
    EXPECT_EQ(server->stats().partitions[0].samples, 3U);
    EXPECT_EQ(server->stats().partitions[0].repeated, 0U);
  }
}

TEST_F(DeviceLearners, WhatTheDeviceFailsWithComesFromTheNextCall) {
  start();
  for (const auto at : {FailingDevice::At::kCopy, FailingDevice::At::kWait}) {
    auto learner = attach_device(name_, std::make_unique<FailingDevice>(at));
    const uint64_t next = learner->committed(0);
    const SampleRange samples{.begin = next, .end = next + 1};
    const uint64_t published_before = published();
    ASSERT_OK(learner->start_push(ones_, samples, stream_.get()));
    EXPECT_FAILS(learner->finish_push(soon()), StatusCode::kInternal, "copy engine is broken");
    // The failed copy leaves nothing in a slot that could be pushed.
    EXPECT_FAILS(learner->push(Gradient::slot(), samples), StatusCode::kInvalidArgument,
                 "gradient_slot");
    EXPECT_EQ(published(), published_before);
    ASSERT_OK(learner->start_push(ones_, samples, stream_.get()));
    ASSERT_OK(learner->finish_push(soon()));
    ASSERT_OK(learner->detach(soon()));

    learner = attach_device(name_, std::make_unique<FailingDevice>(at));
    std::vector<float> weights(kFloats);
    ASSERT_OK(learner->start_pull(weights, PullMode::kSnapshot, stream_.get()));
    EXPECT_FAILS(learner->finish_pull(soon()), StatusCode::kInternal, "copy engine is broken");
    ASSERT_OK(learner->start_pull(weights, PullMode::kSnapshot, stream_.get()));
    ASSERT_OK(learner->finish_pull(soon()));
  }
  expect_weights(-2);
}

TEST_F(DeviceLearners, MistakesAreNamedBeforeAnythingIsCopied) {
  start();
  auto device = std::make_unique<HostDevice>();
  std::vector<float> of_host(kFloats);
  device->keep_on_host(of_host.data());
  auto learner = attach_device(name_, std::move(device));
  const SampleRange one{.partition = 0, .begin = 0, .end = 1};
  EXPECT_FAILS(learner->start_push(of_host, one, stream_.get()), StatusCode::kInvalidArgument,
               "start_push: the memory is the host's");
  EXPECT_FAILS(learner->start_pull(of_host, PullMode::kRelaxed, stream_.get()),
               StatusCode::kInvalidArgument, "start_pull: the memory is the host's");
  std::vector<float> small(3);
  EXPECT_FAILS(learner->start_push(small, one, stream_.get()), StatusCode::kInvalidArgument,
               "5000 parameters");
  EXPECT_FAILS(learner->start_pull(small, PullMode::kRelaxed, stream_.get()),
               StatusCode::kInvalidArgument, "of 5000");
  EXPECT_FAILS(learner->start_push(ones_, SampleRange{}, stream_.get()),
               StatusCode::kInvalidArgument, "no sample is in them");
  EXPECT_FAILS(learner->start_push(ones_, std::vector<SampleRange>(), stream_.get()),
               StatusCode::kInvalidArgument, "no sample is in them");
  const std::vector<uint16_t> halves(kFloats);
  EXPECT_FAILS(
      learner->start_push(Gradient::dense(DType::kBFloat16, halves), SampleRange{}, stream_.get()),
      StatusCode::kInvalidArgument, "no sample is in them");
  EXPECT_FAILS(learner->finish_push(kNoDeadline), StatusCode::kInvalidArgument, "none was started");
  EXPECT_FAILS(learner->finish_pull(kNoDeadline), StatusCode::kInvalidArgument, "none was started");

  ASSERT_OK(learner->start_push(ones_, one, stream_.get()));
  EXPECT_FAILS(learner->start_push(ones_, one, stream_.get()), StatusCode::kInvalidArgument,
               "finish_push() first");
  ASSERT_OK(learner->finish_push(soon()));
  std::vector<float> weights(kFloats);
  ASSERT_OK(learner->start_pull(weights, PullMode::kRelaxed, stream_.get()));
  EXPECT_FAILS(learner->start_pull(weights, PullMode::kRelaxed, stream_.get()),
               StatusCode::kInvalidArgument, "finish_pull() first");
  ASSERT_OK(learner->finish_pull(soon()));
  ASSERT_OK(learner->detach(soon()));
  EXPECT_FAILS(learner->start_push(ones_, one, stream_.get()), StatusCode::kCancelled, "detached");
}

class DeviceThatPinsNothing final : public HostDevice {
 public:
  Result<base::SidePin> pin(void*, uint64_t) override {
    return Status(StatusCode::kExhausted, "pin pages: the limit is 64 KB");
  }
};

TEST_F(DeviceLearners, WorkUnpinnedAndSaySoOnce) {
  start();
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  auto learner = attach_device(name_, std::make_unique<DeviceThatPinsNothing>());
  EXPECT_EQ(learner->not_pinned(), "pin pages: the limit is 64 KB");
  EXPECT_EQ(HostPins::of_this_process().bytes(), 0U);
  std::vector<float> weights(kFloats);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_OK(learner->start_push(ones_, {.begin = i, .end = i + 1}, stream_.get()));
    ASSERT_OK(learner->finish_push(soon()));
    ASSERT_OK(learner->flush(soon()));
    ASSERT_OK(learner->start_pull(weights, PullMode::kRelaxed, stream_.get()));
    ASSERT_OK(learner->finish_pull(soon()));
  }
  set_log_sink(nullptr);
  EXPECT_EQ(weights, std::vector<float>(kFloats, -3.0F));
  EXPECT_EQ(server_->stats().staleness[0], 3U);  // each computed from the previous pull
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("not pinned"), std::string::npos) << lines[0];
}

// Each learner pins a mapping of its own, and every gradient counts once.
TEST_F(DeviceLearners, SeveralShareOneDevice) {
  start();
  constexpr int kLearners = 3;
  constexpr uint64_t kMiniBatches = 60;
  std::vector<std::thread> threads;
  for (uint32_t l = 0; l < kLearners; ++l) {
    threads.emplace_back([&, l] {
      auto learner = attach_device(name_);
      EXPECT_EQ(learner->not_pinned(), "");
      TrainStream stream;
      std::vector<float> weights(kFloats);
      std::vector<float> gradient(kFloats);
      for (uint64_t i = 0; i < kMiniBatches; ++i) {
        ASSERT_OK(learner->start_pull(weights, PullMode::kSnapshot, stream.get()));
        ASSERT_OK(learner->finish_pull(soon()));
        stream.run([&] {
          for (float& g : gradient) g = 1.0F + weights[0] - weights[kFloats - 1];
        });
        ASSERT_OK(learner->start_push(gradient, {.partition = l, .begin = i, .end = i + 1},
                                      stream.get()));
        ASSERT_OK(learner->finish_push(soon()));
      }
      ASSERT_OK(learner->detach(soon()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_weights(-float{kLearners * kMiniBatches});
  for (int l = 0; l < kLearners; ++l) {
    EXPECT_EQ(server_->stats().partitions[static_cast<size_t>(l)].samples, kMiniBatches);
  }
}

// The learner waits for the copy before the memory is freed. The push counts wholly or not at all.
TEST_F(DeviceLearners, EndWhileAPushIsUnderWay) {
  start();
  const auto copies = std::make_shared<StoppingDevice::Copies>();
  auto learner = attach_device(name_, std::make_unique<StoppingDevice>(copies));
  ASSERT_OK(learner->start_push(ones_, {.begin = 0, .end = 1}, stream_.get()));
  copies->half.wait();
  std::thread end([&] { learner.reset(); });
  copies->rest.count_down();
  end.join();
  ASSERT_OK(server_->stop());
  expect_weights(-static_cast<float>(server_->stats().partitions[0].samples));
}

}  // namespace
}  // namespace ffdl
