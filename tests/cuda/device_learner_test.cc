#include <gtest/gtest.h>

#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/device_arrays.h"
#include "ffdl/ps/learner.h"
#include "ffdl/ps/parameter_server.h"
#include "support/learners.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Tests learners on a real GPU; tests/ps/learner/device_transfer_test.cc has the rest.
namespace ffdl {
namespace {

using testing::soon;

constexpr uint64_t kFloats = 1'000'003;

ParameterServerOptions device_server_options(std::string name) {
  ParameterServerOptions options;
  options.name = std::move(name);
  options.parameters = kFloats;
  options.rule.learning_rate = 1;
  options.threads = 2;
  return options;
}

// Owns an array of floats in the GPU's memory.
class DeviceFloats {
 public:
  explicit DeviceFloats(float value) {
    const std::vector<float> values(kFloats, value);
    auto made = testing::on_device(values.data(), kFloats * sizeof(float));
    EXPECT_OK(made);
    if (made.ok()) memory_ = std::move(made).value();
  }
  std::span<float> span() const { return {reinterpret_cast<float*>(memory_.get()), kFloats}; }
  std::vector<float> read() const {
    std::vector<float> values(kFloats);
    EXPECT_OK(testing::to_host(values.data(), memory_.get(), kFloats * sizeof(float)));
    return values;
  }

 private:
  base::DeviceMemory memory_;
};

// Enqueues a copy inside the GPU's memory, in place of computing a gradient.
Status compute(const DeviceFloats& from, const DeviceFloats& to, base::DeviceStream stream) {
  return base::copy_on_device(to.span().data(), from.span().data(), to.span().size_bytes(), stream);
}

// Pushes ones and twos in turn, beside pulls, with samples of a partition of its own.
void train(Learner& learner, uint32_t partition, uint64_t mini_batches) {
  ASSERT_OK_AND_ASSIGN(const auto stream, base::make_device_stream());
  const DeviceFloats made[2] = {DeviceFloats(1), DeviceFloats(2)};
  const DeviceFloats gradients[2] = {DeviceFloats(0), DeviceFloats(0)};
  const DeviceFloats weights[2] = {DeviceFloats(5), DeviceFloats(5)};
  ASSERT_OK(learner.start_pull(weights[0].span(), PullMode::kRelaxed, stream.get()));
  for (uint64_t i = 0; i < mini_batches; ++i) {
    ASSERT_OK(learner.finish_pull(soon()));
    ASSERT_OK(learner.start_pull(weights[(i + 1) % 2].span(), PullMode::kRelaxed, stream.get()));
    ASSERT_OK(compute(made[i % 2], gradients[i % 2], stream.get()));
    if (i > 0) ASSERT_OK(learner.finish_push(soon()));
    ASSERT_OK(learner.start_push(gradients[i % 2].span(),
                                 {.partition = partition, .begin = i, .end = i + 1}, stream.get()));
  }
  ASSERT_OK(learner.finish_push(soon()));
  ASSERT_OK(learner.finish_pull(soon()));
  ASSERT_OK(learner.detach(soon()));
}

TEST(DeviceLearnerOnGpu, SeveralTrainBesideTheirTransfers) {
  FFDL_SKIP_WITHOUT_GPU();
  const testing::SegmentName name;
  auto server = testing::create_server(device_server_options(name));
  ASSERT_OK(server->start());
  constexpr uint32_t kLearners = 2;
  constexpr uint64_t kMiniBatches = 50;
  std::vector<std::thread> threads;
  for (uint32_t l = 0; l < kLearners; ++l) {
    threads.emplace_back([&, l] {
      ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, soon(), {.device = -1}));
      EXPECT_EQ(learner->not_pinned(), "");
      train(*learner, l, kMiniBatches);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const float sum = -float{kLearners * kMiniBatches} * 1.5F;
  for (const float weight : server->weights()) ASSERT_EQ(weight, sum);
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(name.text(), soon(), {.device = -1}));
  const DeviceFloats weights(5);
  ASSERT_OK(learner->start_pull(weights.span(), PullMode::kSnapshot));
  ASSERT_OK_AND_ASSIGN(const uint64_t version, learner->finish_pull(soon()));
  EXPECT_GT(version, 0U);
  EXPECT_EQ(weights.read(), std::vector<float>(kFloats, sum));
}

TEST(DeviceLearnerOnGpu, SnapshotsAreWholeWhileTheServerFolds) {
  FFDL_SKIP_WITHOUT_GPU();
  const testing::SegmentName name;
  ParameterServerOptions options = device_server_options(name);
  options.threads = 1;
  auto server = testing::create_server(options);
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, soon(), {.device = -1}));
  const DeviceFloats weights(5);
  StopSource stop;
  std::thread pusher([&] {
    auto other = testing::attach(*server);
    const std::vector<float> ones(kFloats, 1.0F);
    while (!stop.get_token().stop_requested()) {
      ASSERT_OK(other->push(ones, testing::next_sample(*other)));
    }
    ASSERT_OK(other->detach(soon()));
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(learner->start_pull(weights.span(), PullMode::kSnapshot));
    ASSERT_OK_AND_ASSIGN(const uint64_t version, learner->finish_pull(soon()));
    const std::vector<float> read = weights.read();
    ASSERT_EQ(read, std::vector<float>(kFloats, read[0]));
    ASSERT_GE(-read[0], static_cast<float>(version));
  }
  stop.request_stop();
  pusher.join();
}

}  // namespace
}  // namespace ffdl
