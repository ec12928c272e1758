#include "base/array_work.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/array_threads.h"
#include "support/elements.h"
#include "support/status_matchers.h"

namespace ffdl::base {
namespace {

using testing::Elements;
using testing::run_all_threads;

constexpr DType kTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr uint64_t kCounts[] = {0, 1, 3, 4, 5, 31, 64, 257, 1031};
// Offsets from a multiple of 16 bytes, for access by packs, by elements and by bytes.
constexpr uint64_t kOffsets[] = {0, 8, 1};

DType wide_of(DType type) { return type == DType::kFloat64 ? type : DType::kFloat32; }

// Returns numbers whose sums and products are inexact, and some infinities and negative zeros.
double number(uint64_t i, uint64_t seed) {
  if (i % 29 == 7) return std::numeric_limits<double>::infinity();
  if (i % 31 == 9) return -0.0;
  return std::sin(static_cast<double>(i + 1000 * seed)) * std::exp2(static_cast<double>(i % 9));
}

// Returns `count` elements, followed by one element more.
Elements filled(DType type, uint64_t count, uint64_t offset, uint64_t seed) {
  Elements elements(type, count + 1, offset);
  for (uint64_t i = 0; i <= count; ++i) elements.set(i, number(i, seed));
  return elements;
}

// Returns the value as arithmetic in the wide type rounds it.
double in_wide(DType type, double value) {
  return type == DType::kFloat64 ? value : static_cast<double>(static_cast<float>(value));
}

void expect_same_bits(Elements& got, Elements& expected) {
  const Buffer one = got.buffer();
  const Buffer other = expected.buffer();
  EXPECT_EQ(std::memcmp(one.data, other.data, one.count * element_bytes(one.dtype)), 0);
}

// Calls test(type, count, offset, threads).
template <class Test>
void for_all(const Test& test) {
  uint64_t threads = 0;
  for (const DType type : kTypes) {
    for (const uint64_t count : kCounts) {
      for (const uint64_t offset : kOffsets) {
        SCOPED_TRACE(::testing::Message() << count << ' ' << to_string(type) << " at " << offset);
        threads = threads % 37 + 1;
        test(type, count, offset, threads);
      }
    }
  }
}

TEST(ArrayWork, ScalesEachElement) {
  for_all([](DType type, uint64_t count, uint64_t offset, uint64_t threads) {
    for (const double factor : {0.3, 0.0}) {
      Elements values = filled(type, count, offset, 1);
      Elements expected = filled(type, count, offset, 1);
      for (uint64_t i = 0; i < count; ++i) {
        const double product = values.get(i) * in_wide(type, factor);
        expected.set(i, factor == 0 ? 0 : in_wide(type, product));
      }
      run_all_threads(ScaleArray{values.part(0, count), factor}, threads);
      expect_same_bits(values, expected);
    }
  });
}

TEST(ArrayWork, AddsAndDividesInTheWideType) {
  for_all([](DType type, uint64_t count, uint64_t offset, uint64_t threads) {
    const DType wide = wide_of(type);
    Elements first = filled(type, count, offset, 1);
    Elements second = filled(type, count, 2 * offset, 2);
    Elements sum = filled(wide, count, offset, 3);
    Elements expected = filled(wide, count, offset, 3);
    run_all_threads(AddArray{sum.buffer().data, first.part(0, count), 7, true}, threads);
    run_all_threads(AddArray{sum.buffer().data, second.part(0, count), 0.7}, threads);
    for (uint64_t i = 0; i < count; ++i) {
      const double product = in_wide(type, second.get(i) * in_wide(type, 0.7));
      expected.set(i, in_wide(type, first.get(i) + product));
    }
    expect_same_bits(sum, expected);

    Elements mean = filled(type, count, 2 * offset, 4);
    Elements expected_mean = filled(type, count, 2 * offset, 4);
    run_all_threads(DivideArray{mean.part(0, count), sum.buffer().data, 3}, threads);
    for (uint64_t i = 0; i < count; ++i) expected_mean.set(i, in_wide(type, sum.get(i) / 3));
    expect_same_bits(mean, expected_mean);
    if (wide != type) return;
    run_all_threads(DivideArray{sum.part(0, count), sum.buffer().data, 3}, threads);  // in place
    for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(sum.get(i), mean.get(i));
  });
}

TEST(ArrayWork, TakesSquaresOfTheBlocksThatAreDrawn) {
  for (const DType type : kTypes) {
    for (const uint64_t count : {1UL, 1023UL, 1025UL, 5000UL}) {
      for (const uint64_t stride : {1UL, 2UL, 3UL}) {
        Elements values(type, count, 1);
        Elements other(type, count, 3);
        for (uint64_t i = 0; i < count; ++i) {
          values.set(i, static_cast<double>(i / kNormBlock + 2));
          other.set(i, 1);
        }
        const uint64_t blocks = (count + kNormBlock - 1) / kNormBlock;
        const uint64_t picks = (blocks + stride - 1) / stride;
        std::vector<double> lanes(picks * kNormLanes + 1, -1);
        run_all_threads(
            SquareArray{values.buffer(), other.buffer().data, stride, 5, 0, picks, lanes.data()},
            11);
        for (uint64_t pick = 0; pick < picks; ++pick) {
          const uint64_t block = pick_block(blocks, stride, 5, pick).block;
          EXPECT_EQ(block / stride, pick);
          const uint64_t there = std::min(kNormBlock, count - block * kNormBlock);
          const auto each = static_cast<double>((block + 1) * (block + 1));
          for (uint64_t lane = 0; lane < kNormLanes; ++lane) {
            const uint64_t of_lane = (there + kNormLanes - 1 - lane) / kNormLanes;
            EXPECT_EQ(lanes[pick * kNormLanes + lane], each * static_cast<double>(of_lane));
          }
        }
        EXPECT_EQ(lanes.back(), -1);
      }
    }
  }
}

TEST(ArrayWork, RefusesWhatAKernelCannotDo) {
  float values[8] = {};
  double lanes[8] = {};
  const Buffer good = {values, 8};
  EXPECT_OK(check_array_work(ScaleArray{good, 2}));
  EXPECT_OK(check_array_work(ScaleArray{}));
  EXPECT_FAILS(check_array_work(ScaleArray{{values, 8, DType::kInt32}, 2}),
               StatusCode::kInvalidArgument, "scale on the device: an array of int32");
  EXPECT_FAILS(check_array_work(AddArray{values, {nullptr, 3}}), StatusCode::kInvalidArgument,
               "add on the device: an array of 3 elements is null");
  EXPECT_FAILS(check_array_work(AddArray{nullptr, good}), StatusCode::kInvalidArgument,
               "the sum of 8 elements is null");
  EXPECT_FAILS(check_array_work(DivideArray{good}), StatusCode::kInvalidArgument,
               "divide on the device: the sum");
  EXPECT_OK(check_array_work(DivideArray{good, values}));
  SquareArray squares = {.values = good, .picks = 1, .lanes = lanes};
  EXPECT_OK(check_array_work(squares));
  squares.first_pick = 1;
  EXPECT_FAILS(check_array_work(squares), StatusCode::kInvalidArgument, "picks 1 to 2 of 1");
  squares.stride = 0;
  EXPECT_FAILS(check_array_work(squares), StatusCode::kInvalidArgument, "one block in 0");
}

}  // namespace
}  // namespace ffdl::base
