#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/half_arithmetic.h"
#include "cuda/device_arrays.h"
#include "ps/rules/device_update.h"
#include "ps/rules/rule_arithmetic.h"
#include "support/rule_arrays.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

using testing::RuleBlock;

// Every NaN counts as the same: a GPU's has one pattern, and a processor's has the operand's.
void expect_same_bits(const base::DeviceMemory& device, const float* expected, uint64_t count) {
  std::vector<float> got(RuleBlock::kCount);
  ASSERT_OK(testing::to_host(got.data(), device.get(), count * sizeof(float)));
  for (uint64_t i = 0; i < count; ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(base::bits_of(got[i]), base::bits_of(expected[i])) << i << ": " << got[i];
  }
}

// Tests without a GPU cover the arithmetic and the split among threads. Here the compiled
// arithmetic and the launch are tested, which only a GPU can get wrong.
TEST(UpdateRules, GiveTheBitsOfTheProcessor) {
  FFDL_SKIP_WITHOUT_GPU();
  if (!testing::kernels_fuse()) GTEST_SKIP() << "this processor has no fused multiply-add";
  uint32_t seed = 0;
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const UpdateRuleKind kind : testing::kAllRules) {
      for (const uint64_t count : {1, 31, 1023, 1039}) {
        SCOPED_TRACE(::testing::Message() << to_string(kind) << " of " << count << " with "
                                          << to_string(type) << " gradients");
        const RuleBlock block(++seed, type);
        const UpdateStep step = testing::step_of(seed);
        const RuleBlock expected = block.updated(testing::rule_of(kind), step);
        constexpr uint64_t kBytes = RuleBlock::kCount * sizeof(float);
        ASSERT_OK_AND_ASSIGN(
            const auto gradient,
            testing::on_device(block.gradient_as(type), RuleBlock::kCount * element_bytes(type)));
        ASSERT_OK_AND_ASSIGN(const auto weights, testing::on_device(block.weights, kBytes));
        ASSERT_OK_AND_ASSIGN(const auto first, testing::on_device(block.state[0], kBytes));
        ASSERT_OK_AND_ASSIGN(const auto second, testing::on_device(block.state[1], kBytes));
        DeviceUpdate update{.count = count, .gradient_type = type, .gradient = gradient.get()};
        update.weights = reinterpret_cast<float*>(weights.get());
        update.state[0] = reinterpret_cast<float*>(first.get());
        update.state[1] = reinterpret_cast<float*>(second.get());
        ASSERT_OK(update_on_device(testing::rule_of(kind), step, update, nullptr));
        expect_same_bits(weights, expected.weights, count);
        if (state_count(kind) > 0) expect_same_bits(first, expected.state[0], count);
        if (state_count(kind) > 1) expect_same_bits(second, expected.state[1], count);
      }
    }
  }
}

}  // namespace
}  // namespace ffdl::ps
