#include "elastic/step/finite.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/half_kernels.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Elements of any floating type at an address that is one byte off.
class UnalignedElements {
 public:
  UnalignedElements(DType type, uint64_t count) : type_(type), count_(count) {
    bytes_.resize(count * element_bytes(type) + 1);
  }
  void set(uint64_t element, double value) {
    std::byte* at = bytes_.data() + 1 + element * element_bytes(type_);
    const auto narrow = static_cast<float>(value);
    if (type_ == DType::kFloat64) {
      std::memcpy(at, &value, sizeof value);
    } else if (type_ == DType::kFloat32) {
      std::memcpy(at, &narrow, sizeof narrow);
    } else {
      uint16_t half = 0;
      base::narrow(type_, &narrow, &half, 1);
      std::memcpy(at, &half, sizeof half);
    }
  }
  Buffer buffer() { return {bytes_.data() + 1, count_, type_}; }

 private:
  const DType type_;
  const uint64_t count_;
  std::vector<std::byte> bytes_;
};

double largest(DType type) {
  if (type == DType::kFloat64) return std::numeric_limits<double>::max();
  return type == DType::kFloat16 ? 65504 : 3e38;
}

class FindNonFinite : public ::testing::TestWithParam<DType> {};

TEST_P(FindNonFinite, FiniteElementsOfAnySizeAreNone) {
  for (const uint64_t count : {0, 1, 7, 1023, 1024, 1025, 5000}) {
    UnalignedElements elements(GetParam(), count);
    for (uint64_t i = 0; i < count; ++i) {
      const double values[] = {0, -0.0, 1, -1, largest(GetParam()), -largest(GetParam()), 1e-40};
      elements.set(i, values[i % 7]);
    }
    EXPECT_FALSE(find_non_finite(elements.buffer())) << count;
  }
}

TEST_P(FindNonFinite, TheFirstIsFoundAnywhere) {
  for (const double bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const uint64_t at : {0, 1, 31, 1023, 1024, 2040, 2049}) {
      UnalignedElements elements(GetParam(), 2050);
      elements.set(2049, kNan);
      elements.set(at, bad);
      EXPECT_EQ(find_non_finite(elements.buffer()), at);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FindNonFinite,
                         ::testing::Values(DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                                           DType::kFloat64),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST(FiniteSearch, NamesTheBufferTheElementAndItsValue) {
  HostMemory memory;
  FiniteSearch search(base::Gpu{});
  UnalignedElements first(DType::kFloat32, 100);
  UnalignedElements second(DType::kBFloat16, 3'000'000);  // more than one piece
  const std::vector<Buffer> buffers = {first.buffer(), second.buffer()};
  ASSERT_OK_AND_ASSIGN(auto found, search.find(buffers, memory));
  EXPECT_FALSE(found);
  second.set(2'999'999, -kInfinity);
  ASSERT_OK_AND_ASSIGN(found, search.find(buffers, memory));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->buffer, 1U);
  EXPECT_EQ(found->element, 2'999'999U);
  EXPECT_EQ(found->value, -kInfinity);
}

}  // namespace
}  // namespace ffdl::elastic
