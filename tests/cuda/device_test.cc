#include "base/device.h"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/device_arrays.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

TEST(Device, CopiesThereAndBack) {
  FFDL_SKIP_WITHOUT_GPU();
  ASSERT_OK_AND_ASSIGN(const auto facts, base::find_device());
  EXPECT_FALSE(facts.name.empty());
  EXPECT_GE(facts.major, 8);
  EXPECT_GT(facts.multiprocessors, 0U);
  EXPECT_GT(facts.memory_bytes, 0U);
  EXPECT_GE(facts.driver_version, 12080);
  std::vector<int> values = {3, 1, 4, 1, 5};
  const uint64_t bytes = values.size() * sizeof(int);
  ASSERT_OK_AND_ASSIGN(const auto memory, testing::on_device(values.data(), bytes));
  std::vector<int> back(values.size());
  ASSERT_OK(testing::to_host(back.data(), memory.get(), bytes));
  EXPECT_EQ(back, values);
  EXPECT_FAILS(base::allocate_on_device(uint64_t{1} << 50), StatusCode::kExhausted,
               "the GPU's memory is full");
}

}  // namespace
}  // namespace ffdl
