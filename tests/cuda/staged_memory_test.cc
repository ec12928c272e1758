#include "elastic/state/staged_memory.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "cuda/device_arrays.h"
#include "elastic/state/state_copy.h"
#include "elastic/step/scale.h"
#include "support/status_matchers.h"

// Tests a session's copies of buffers in a GPU's memory; tests/elastic/state/staged_memory_test.cc
// has the rest.
namespace ffdl::elastic {
namespace {

TEST(StagedMemoryOnGpu, IsVisitedAsThatOfTheHost) {
  FFDL_SKIP_WITHOUT_GPU();
  ASSERT_OK_AND_ASSIGN(const int device, base::device_in_use());
  std::vector<float> values(3'000'001);  // some slices, the last one short
  std::iota(values.begin(), values.end(), 1.0F);
  const uint64_t bytes = values.size() * sizeof(float);
  ASSERT_OK_AND_ASSIGN(const auto held, testing::on_device(values.data(), bytes));
  int64_t counter = 5;
  const Buffer mixed[] = {{held.get(), values.size()}, {&counter, 1, DType::kInt64}};
  const Buffer host[] = {{values.data(), values.size()}, {&counter, 1, DType::kInt64}};

  ASSERT_OK_AND_ASSIGN(base::ChosenGpu chosen, base::choose_gpu(device, nullptr));
  const base::Gpu gpu = chosen.gpu;
  ASSERT_OK_AND_ASSIGN(const auto memory, StagedMemory::create(std::move(chosen)));
  ASSERT_OK(memory->follow());
  EXPECT_EQ(hash_of(*memory, mixed, {}).value(), hash_of(host, {}));
  ASSERT_OK(scale(gpu, {mixed, 1}, 0.3));
  ASSERT_OK(memory->follow());
  scale({host, 1}, 0.3);
  EXPECT_EQ(hash_of(*memory, mixed, {}).value(), hash_of(host, {}));
  ASSERT_OK(scale(gpu, {mixed, 1}, 0));
  std::vector<float> back(values.size(), 1);
  ASSERT_OK(testing::to_host(back.data(), held.get(), bytes));
  EXPECT_EQ(back, std::vector<float>(values.size()));
}

}  // namespace
}  // namespace ffdl::elastic
