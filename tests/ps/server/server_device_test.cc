#include "ps/server/server_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "ps/server/server_impl.h"
#include "support/device_updates.h"
#include "support/learners.h"
#include "support/rule_arrays.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Tests servers that fold in a GPU's memory, from the outside.
namespace ffdl {
namespace {

using testing::HostDevice;
using testing::soon;

constexpr uint64_t kParameters = 5'000;
constexpr uint64_t kSliceBytes = uint64_t{16} << 10;  // 4096 floats

class ServerDevices : public ::testing::Test {
 protected:
  ParameterServerOptions options(UpdateRuleKind kind) const {
    ParameterServerOptions made;
    made.name = name_;
    made.parameters = kParameters;
    made.rule.kind = kind;
    made.rule.learning_rate = kind == UpdateRuleKind::kSgd ? 1.0F : 0.1F;
    made.threads = 2;
    made.rows_max = 10;
    made.device = 0;
    return made;
  }
  Result<std::unique_ptr<ParameterServer>> create(const ParameterServerOptions& options,
                                                  HostDevice& device) const {
    return ParameterServer::Impl::create(options, nullptr, nullptr, other(device));
  }
  static ps::OtherDevices other(HostDevice& device) {
    return {&device, &testing::update_on_host_device, kSliceBytes};
  }

  const testing::SegmentName name_;
  HostDevice device_;
};

std::vector<float> some_gradient(uint64_t number) {
  std::vector<float> gradient(kParameters);
  for (uint64_t i = 0; i < kParameters; ++i) {
    gradient[i] = static_cast<float>((i * 7 + number * 13) % 11) - 5;
  }
  return gradient;
}

// Waits, so that the next gradient is not added to another.
void wait_for_version(const ParameterServer& server, uint64_t version) {
  const Time end = soon();
  while (server.version() < version && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server.version(), version);
}

// Pushes dense gradients and rows in turn.
void push_some(ParameterServer& server, uint64_t count) {
  const auto learner = testing::attach(server);
  const std::vector<uint64_t> rows = {3, 40};
  const std::vector<float> values(2 * 17, 2.5F);
  const RowGradient table{.table = 5, .row_size = 17, .rows = rows, .values = values};
  for (uint64_t i = 0; i < count; ++i) {
    const SampleRange samples{.begin = i, .end = i + 1};
    if (i % 4 == 3) {
      ASSERT_OK(learner->push(Gradient::sparse({&table, 1}), samples));
    } else {
      ASSERT_OK(learner->push(some_gradient(i), samples));
    }
    wait_for_version(server, i + 1);
  }
}

TEST_F(ServerDevices, GiveTheBitsOfTheProcessor) {
  if (!testing::kernels_fuse()) GTEST_SKIP() << "this processor has no fused multiply-add";
  std::optional<ParameterServerCut> expected;
  for (const std::optional<int> device : {std::optional<int>(), std::optional(0)}) {
    ParameterServerOptions made = options(UpdateRuleKind::kAdam);
    made.device = device;
    ASSERT_OK_AND_ASSIGN(const auto server, create(made, device_));
    ASSERT_OK(server->start());
    EXPECT_EQ(server->stats().device, device);
    push_some(*server, 11);
    ASSERT_OK_AND_ASSIGN(const ParameterServerCut cut, server->cut(soon()));
    EXPECT_EQ(cut.version, 11U);
    if (!expected) expected = cut;
    EXPECT_EQ(cut.weights, expected->weights);
    EXPECT_EQ(cut.state, expected->state);
    EXPECT_EQ(cut.partitions[0].samples, 11U);
    ASSERT_OK(server->stop());
  }
}

TEST_F(ServerDevices, FoldWhatManyLearnersPush) {
  ASSERT_OK_AND_ASSIGN(const auto server, create(options(UpdateRuleKind::kSgd), device_));
  ASSERT_OK(server->start());
  constexpr uint64_t kEach = 40;
  {
    std::vector<std::jthread> learners;
    for (uint32_t l = 0; l < 5; ++l) {
      learners.emplace_back([&server, l] {
        const auto learner = testing::attach(*server);
        const std::vector<float> ones(kParameters, 1.0F);
        for (uint64_t i = 0; i < kEach; ++i) {
          ASSERT_OK(learner->push(ones, {.partition = l, .begin = i, .end = i + 1}));
        }
        ASSERT_OK(learner->detach(soon()));
      });
    }
  }
  ASSERT_OK(server->stop());
  for (const float weight : server->weights()) ASSERT_EQ(weight, -5.0F * kEach);
  for (uint32_t l = 0; l < 5; ++l) {
    EXPECT_EQ(server->stats().partitions[l].samples, kEach);
    EXPECT_EQ(server->stats().partitions[l].repeated + server->stats().partitions[l].missing, 0U);
  }
}

// A device on which all waits fail from one on.
class LateDyingDevice final : public HostDevice {
 public:
  explicit LateDyingDevice(int waits) : waits_left_(waits) {}
  Status wait(base::DeviceStream stream) override {
    FFDL_RETURN_IF_ERROR(HostDevice::wait(stream));
    return waits_left_-- <= 0 ? Status(StatusCode::kInternal, "the GPU is gone") : Status();
  }

 private:
  std::atomic<int> waits_left_;
};

// Fails in every wait: at the first load of a shard, before a batch and in the middle of one.
TEST_F(ServerDevices, AreLeftForTheProcessorWhenTheyFail) {
  constexpr int kPushes = 3;
  for (int waits = 0; waits < 9; ++waits) {
    SCOPED_TRACE(waits);
    LateDyingDevice device(waits);
    ParameterServerOptions made = options(UpdateRuleKind::kSgd);
    made.threads = 1;  // one shard of two slices
    ASSERT_OK_AND_ASSIGN(const auto server, create(made, device));
    ASSERT_OK(server->start());
    {
      const auto learner = testing::attach(*server);
      const std::vector<float> ones(kParameters, 1.0F);
      for (uint64_t i = 0; i < kPushes; ++i) {
        ASSERT_OK(learner->push(ones, SampleRange{.begin = i, .end = i + 1}));
        wait_for_version(*server, i + 1);
      }
    }
    EXPECT_EQ(server->stats().device.has_value(), waits > 2 * kPushes);
    EXPECT_EQ(server->stats().partitions[0].samples, uint64_t{kPushes});
    ASSERT_OK(server->stop());
    for (const float weight : server->weights()) ASSERT_EQ(weight, -1.0F * kPushes);
  }
}

TEST_F(ServerDevices, AreRefusedWhereTheyCannotFold) {
  ParameterServerOptions rounds = options(UpdateRuleKind::kSgd);
  rounds.synchrony = Synchrony::kBulk;
  EXPECT_FAILS(create(rounds, device_), StatusCode::kInvalidArgument, "a GPU folds no rounds");

  class OwnRule final : public UpdateRule {
   public:
    std::string_view name() const override { return "own"; }
    int state_count() const override { return 0; }
    bool takes_mean() const override { return false; }
    void apply(const UpdateStep&, const UpdateBlock&) const override {}
  };
  EXPECT_FAILS(ParameterServer::Impl::create(options(UpdateRuleKind::kSgd),
                                             std::make_unique<OwnRule>(), nullptr, other(device_)),
               StatusCode::kInvalidArgument, "no kernel for the rule 'own'");
}

// A successor without its GPU folds on the processor.
TEST_F(ServerDevices, SucceedWithoutOne) {
  class NoDevice final : public HostDevice {
   public:
    Status use(int) override { return Status(StatusCode::kUnimplemented, "no GPU"); }
  } none;
  ps::Config config = {};
  config.parameters = 1;
  config.shards = 1;
  config.learners_max = 1;
  config.device_plus_one = 3;
  const ps::Region region(nullptr, config);
  EXPECT_FALSE(ps::ServerDevice::succeed(region, other(none)).fold());
  const ps::ServerDevice same = ps::ServerDevice::succeed(region, other(device_));
  EXPECT_EQ(same.fold().gpu.number, 2);
  EXPECT_FAILS(ps::ServerDevice::choose(1, other(none)), StatusCode::kUnimplemented, "no GPU");
}

}  // namespace
}  // namespace ffdl
