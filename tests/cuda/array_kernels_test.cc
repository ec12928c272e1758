#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/array_work.h"
#include "cuda/device_arrays.h"
#include "support/array_threads.h"
#include "support/elements.h"
#include "support/status_matchers.h"

namespace ffdl::base {
namespace {

using testing::Elements;

constexpr uint64_t kCount = 5003;

Elements filled(DType type, uint64_t offset, uint64_t seed) {
  Elements elements(type, kCount, offset);
  for (uint64_t i = 0; i < kCount; ++i) {
    const double sine = std::sin(static_cast<double>(i + 1000 * seed));
    elements.set(i, sine * std::exp2(static_cast<double>(i % 9)));
  }
  return elements;
}

// Owns a copy of some elements in the GPU's memory, at the given offset from a multiple of 16
// bytes.
class There {
 public:
  There(const void* memory, uint64_t bytes, uint64_t offset)
      : memory_(memory), bytes_(bytes), offset_(offset) {
    auto made = allocate_on_device(bytes + offset);
    EXPECT_OK(made);
    held_ = std::move(made).value();
    EXPECT_OK(copy_on_device(held_.get() + offset, memory, bytes, nullptr));
    EXPECT_OK(wait_for_device(nullptr));  // the memory will be written
  }
  void* data() const { return held_.get() + offset_; }
  bool is_as_here() const {
    std::vector<std::byte> back(bytes_);
    EXPECT_OK(testing::to_host(back.data(), data(), bytes_));
    return std::memcmp(back.data(), memory_, bytes_) == 0;
  }

 private:
  const void* const memory_;
  const uint64_t bytes_;
  const uint64_t offset_;
  DeviceMemory held_;
};

// Tests without a GPU cover the arithmetic and the split among threads. Here the compiled
// arithmetic and the launch are tested, which only a GPU can get wrong.
TEST(ArrayKernels, GiveTheBitsOfTheirThreadsOnTheHost) {
  FFDL_SKIP_WITHOUT_GPU();
  for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (const uint64_t offset : {0UL, 8UL, 1UL}) {
      SCOPED_TRACE(::testing::Message() << to_string(type) << " at " << offset);
      const DType wide = type == DType::kFloat64 ? type : DType::kFloat32;
      Elements values = filled(type, offset, 1);
      Elements sum = filled(wide, offset, 2);
      std::vector<double> lanes(5 * kNormLanes);
      const Buffer here = values.buffer();
      const Buffer sum_here = sum.buffer();
      const There there(here.data, kCount * element_bytes(type), offset);
      const There sum_there(sum_here.data, kCount * element_bytes(wide), offset);
      const There lanes_there(lanes.data(), lanes.size() * sizeof(double), 0);
      const Buffer buffer_there = {there.data(), kCount, type};

      const auto run_both = [&](const ArrayWork& on_host, const ArrayWork& on_device) {
        testing::run_all_threads(on_host, 5);
        ASSERT_OK(run_on_device(on_device, nullptr));
      };
      run_both(ScaleArray{here, 0.3}, ScaleArray{buffer_there, 0.3});
      EXPECT_TRUE(there.is_as_here());
      run_both(AddArray{sum_here.data, here, 0.7}, AddArray{sum_there.data(), buffer_there, 0.7});
      EXPECT_TRUE(sum_there.is_as_here());
      run_both(DivideArray{here, sum_here.data, 3}, DivideArray{buffer_there, sum_there.data(), 3});
      EXPECT_TRUE(there.is_as_here());
      SquareArray squares = {.values = here, .picks = 5, .lanes = lanes.data()};
      SquareArray squares_there = squares;
      squares_there.values = buffer_there;
      squares_there.lanes = static_cast<double*>(lanes_there.data());
      run_both(squares, squares_there);
      EXPECT_TRUE(lanes_there.is_as_here());
      run_both(ScaleArray{here, 0}, ScaleArray{buffer_there, 0});
      EXPECT_TRUE(there.is_as_here());
    }
  }
}

}  // namespace
}  // namespace ffdl::base
