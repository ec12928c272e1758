#include "ps/server/device_fold.h"

#include <gtest/gtest.h>

#include "ps/server/fold.h"
#include "ps/test_region.h"
#include "support/device_updates.h"
#include "support/rule_arrays.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

using testing::GuardedDevice;
using testing::LateStream;

struct FoldCase {
  DType type;
  UpdateRuleKind kind;
  uint32_t shards;
  uint64_t slice_bytes;
};

Config config_of(const FoldCase& what, const UpdateRule& rule) {
  Config config = TestRegion::small_config(what.shards, static_cast<uint32_t>(rule.state_count()));
  config.gradient_type = what.type;
  config.rule.kind = what.kind;
  config.clip_value = 3;
  config.schedule = {.decay = LearningRateSchedule::Decay::kLinear,
                     .warmup_steps = 3,
                     .decay_steps = 20,
                     .final_factor = 0.1F};
  return config;
}

void publish_round(TestRegion& region) {
  region.publish(0, {{.partition = 0, .begin = 0, .end = 4}});
  region.publish(1, {}, 0);  // skipped: an update's number, and no update
  region.publish(2, {}, 3);  // several mini-batches
}

class DeviceFolds : public ::testing::TestWithParam<FoldCase> {
 protected:
  // A device whose memory the processor cannot touch.
  GuardedDevice device_{std::make_shared<LateStream>()};
  const FoldDevice fold_device_{
      {&device_, 0}, &testing::update_on_host_device, GetParam().slice_bytes};
};

// Folds batches on the device, and sparse gradients on the processor between them, shard by shard.
TEST_P(DeviceFolds, GiveTheBitsOfTheProcessor) {
  if (!testing::kernels_fuse()) GTEST_SKIP() << "this processor has no fused multiply-add";
  const FoldCase what = GetParam();
  UpdateRuleOptions options{.kind = what.kind, .learning_rate = 0.5F};
  const auto rule = make_update_rule(options).value();
  Config config = config_of(what, *rule);
  const std::vector<TouchedRange> rows = {{3, 20}, {300, 530}};
  TestRegion expected(config);
  config.device_plus_one = 1;
  TestRegion region(config);
  for (int round = 0; round < 3; ++round) {
    for (TestRegion* const each : {&expected, &region}) publish_round(*each);
    for (int k = 0; k < region->shards(); ++k) {
      ShardFold<> by_processor(*expected, *rule, k);
      for (int l = 0; l < 3; ++l) ASSERT_OK(by_processor.fold(l));
      ASSERT_OK_AND_ASSIGN(const auto device, DeviceFold::create(*region, k, fold_device_));
      ASSERT_OK(device->use());
      ASSERT_OK(device->load());
      ShardFold<> by_device(*region, *rule, k, {}, device.get());
      const std::vector<int> two = {0, 1};
      ASSERT_OK(by_device.fold_batch(two));
      const std::vector<int> last = {2};
      ASSERT_OK(by_device.fold_batch(last));
    }
    ASSERT_EQ(region.contents(), expected.contents()) << round;
    for (TestRegion* const each : {&expected, &region}) each->publish(0, {}, 1, rows);
    for (int k = 0; k < region->shards(); ++k) {
      for (TestRegion* const each : {&expected, &region}) {
        ShardFold<> fold(**each, *rule, k);
        ASSERT_OK(fold.fold(0));
      }
    }
    ASSERT_EQ(region.contents(), expected.contents()) << round;
  }
}

constexpr uint64_t kOneBlock = kBlockFloats * sizeof(float);
INSTANTIATE_TEST_SUITE_P(
    Rules, DeviceFolds,
    ::testing::Values(FoldCase{DType::kFloat32, UpdateRuleKind::kSgd, 1, kOneBlock},
                      FoldCase{DType::kFloat32, UpdateRuleKind::kMomentum, 2, 2 * kOneBlock},
                      FoldCase{DType::kFloat32, UpdateRuleKind::kAdam, 2, 1 << 20},
                      FoldCase{DType::kFloat32, UpdateRuleKind::kAdamW, 1, 3 * kOneBlock},
                      FoldCase{DType::kBFloat16, UpdateRuleKind::kAdam, 3, 2 * kOneBlock},
                      FoldCase{DType::kFloat16, UpdateRuleKind::kNesterov, 1, 1},
                      FoldCase{DType::kFloat32, UpdateRuleKind::kAdagrad, 3, 2 * kOneBlock},
                      FoldCase{DType::kFloat32, UpdateRuleKind::kAverage, 2, kOneBlock}));

// The device takes over the ranges that the processor changed between two batches.
TEST(DeviceFold, TakesOverWhatWasTouched) {
  GuardedDevice device(std::make_shared<LateStream>());
  const auto rule = make_update_rule({.learning_rate = 0.5F}).value();
  Config config = TestRegion::small_config(2, 0);
  config.device_plus_one = 1;
  TestRegion region(config);
  const std::vector<TouchedRange> rows = {{1, 9}, {1000, 1300}};  // ranges of both shards
  for (int k = 0; k < 2; ++k) {
    ASSERT_OK_AND_ASSIGN(
        const auto on_device,
        DeviceFold::create(*region, k, {{&device, 0}, &testing::update_on_host_device}));
    ASSERT_OK(on_device->load());
    if (k == 0) region.publish(0, {}, 1, rows);
    ShardFold<> fold(*region, *rule, k, {}, on_device.get());
    ASSERT_OK(fold.fold(0));
    ASSERT_OK(on_device->load(rows));
    if (k == 0) region.publish(1, {});
    const std::vector<int> batch = {1};
    ASSERT_OK(fold.fold_batch(batch));
  }
  for (uint64_t i = 0; i < region->config().parameters; ++i) {
    const bool touched = (i >= 1 && i < 9) || (i >= 1000 && i < 1300);
    const float sum = TestRegion::element(1, 1, i) + (touched ? TestRegion::element(0, 1, i) : 0);
    ASSERT_EQ(region->weights()[i], -0.5F * sum) << i;
  }
}

// A device failure before the first change leaves everything as it was.
TEST(DeviceFold, FailureBeforeTheJournalChangesNothing) {
  class Broken final : public testing::HostDevice {
   public:
    Status wait(base::DeviceStream stream) override {
      FFDL_RETURN_IF_ERROR(HostDevice::wait(stream));
      return waits_++ == 1 ? Status(StatusCode::kInternal, "the GPU is broken") : Status();
    }

   private:
    int waits_ = 0;
  } device;
  const auto rule = make_update_rule({.learning_rate = 0.5F}).value();
  Config config = TestRegion::small_config(1, 0);
  config.device_plus_one = 1;
  TestRegion region(config);
  ASSERT_OK_AND_ASSIGN(
      const auto on_device,
      DeviceFold::create(*region, 0, {{&device, 0}, &testing::update_on_host_device}));
  ASSERT_OK(on_device->load());
  region.publish(0, {});
  const std::vector<uint64_t> before = region.contents();
  ShardFold<> fold(*region, *rule, 0, {}, on_device.get());
  const std::vector<int> batch = {0};
  EXPECT_FAILS(fold.fold_batch(batch), StatusCode::kInternal, "the GPU is broken");
  EXPECT_EQ(region.contents(), before);
  EXPECT_EQ(region->shard(0).seqlock, 0U);
  EXPECT_EQ(region->folded(0, 0), 0U);
}

}  // namespace
}  // namespace ffdl::ps
