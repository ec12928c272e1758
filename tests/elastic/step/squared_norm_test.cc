#include "elastic/step/squared_norm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/half_kernels.h"

namespace ffdl::elastic {
namespace {

TEST(SquaredNorm, OfAllBuffersAtAnyAddress) {
  std::vector<std::byte> bytes(1 + 3 * sizeof(float));
  const float values[] = {1, -2, 3};
  std::memcpy(bytes.data() + 1, values, sizeof values);
  std::vector<double> doubles = {0.5, 4};
  const Buffer buffers[] = {{bytes.data() + 1, 3, DType::kFloat32},
                            {nullptr, 0, DType::kFloat32},
                            {doubles.data(), 2, DType::kFloat64}};
  EXPECT_DOUBLE_EQ(squared_norm(buffers), 1 + 4 + 9 + 0.25 + 16);
}

// Tests sizes around a block, and one for which a sum of floats in float would lose small values.
TEST(SquaredNorm, OfManyElements) {
  for (const size_t count : {1U, 1023U, 1024U, 1025U, 5000U}) {
    std::vector<float> values(count, 1);
    values.back() = 1e5F;
    const Buffer buffer = {values.data(), count};
    EXPECT_DOUBLE_EQ(squared_norm({&buffer, 1}), 1e10 + static_cast<double>(count - 1)) << count;
  }
}

TEST(SquaredNorm, OfSixteenBitTypes) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const std::vector<float> wide(1500, -2);
    std::vector<uint16_t> narrow(wide.size());
    base::narrow(dtype, wide.data(), narrow.data(), wide.size());
    const Buffer buffer = {narrow.data(), narrow.size(), dtype};
    EXPECT_DOUBLE_EQ(squared_norm({&buffer, 1}), 4 * 1500);
  }
}

// Returns blocks that differ by orders of magnitude. The last one is not whole.
std::vector<float> uneven_blocks() {
  std::vector<float> values(1024 * 100 + 17);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 1024);
  return values;
}

TEST(SquaredNorm, OfOneBlockInSomeHasTheRightMean) {
  std::vector<float> values = uneven_blocks();
  const Buffer buffer = {values.data(), values.size()};
  const double exact = squared_norm({&buffer, 1});
  constexpr uint64_t kRounds = 4000;
  double sum = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const double norm = squared_norm({&buffer, 1}, {8, round});
    EXPECT_NE(norm, exact) << round;
    EXPECT_NEAR(norm / exact, 1, 0.5) << round;
    sum += norm;
  }
  // The standard deviation of the mean of kRounds is less than a thousandth.
  EXPECT_NEAR(sum / kRounds / exact, 1, 0.004);
}

TEST(SquaredNorm, OfOneBlockInSomeIsTheSameInTheSameRound) {
  std::vector<float> values = uneven_blocks();
  std::vector<float> doubled = values;
  for (float& value : doubled) value *= 2;
  const Buffer buffers[] = {{values.data(), values.size()}, {doubled.data(), doubled.size()}};
  for (const uint64_t round : {1U, 2U, 77U}) {
    const double norm = squared_norm({buffers, 1}, {8, round});
    EXPECT_DOUBLE_EQ(squared_norm({buffers + 1, 1}, {8, round}), 4 * norm);
    EXPECT_DOUBLE_EQ(squared_distance({buffers, 1}, {buffers + 1, 1}, {8, round}), norm);
  }
}

TEST(SquaredNorm, OfSmallBuffersIsOfAllBlocks) {
  std::vector<float> values = uneven_blocks();
  const Buffer buffer = {values.data(), 64 * 1024};
  EXPECT_DOUBLE_EQ(squared_norm({&buffer, 1}, {8, 5}), squared_norm({&buffer, 1}));
}

TEST(SquaredDistance, OfEachDType) {
  std::vector<float> one(1300, 3);
  std::vector<float> two(1300, 1);
  const Buffer floats[] = {{one.data(), 1300}, {two.data(), 1300}};
  EXPECT_DOUBLE_EQ(squared_distance({floats, 1}, {floats + 1, 1}), 4 * 1300);
  double three = 1;
  double four = -1;
  const Buffer doubles[] = {{&three, 1, DType::kFloat64}, {&four, 1, DType::kFloat64}};
  EXPECT_DOUBLE_EQ(squared_distance({doubles, 1}, {doubles + 1, 1}), 4);
}

}  // namespace
}  // namespace ffdl::elastic
