#include "comm/operation/buffer_pieces.h"

#include <gtest/gtest.h>

#include <vector>

namespace ffdl::comm {
namespace {

TEST(Pieces, AnyRangeOfTheListIsItsConcatenation) {
  std::vector<int8_t> values(20);
  for (int i = 0; i < 20; ++i) values[static_cast<size_t>(i)] = static_cast<int8_t>(i);
  const Buffer list[] = {{values.data(), 3, DType::kInt8},
                         {nullptr, 0, DType::kInt8},
                         {values.data() + 3, 1, DType::kInt8},
                         {values.data() + 4, 8, DType::kInt16}};
  for (uint64_t begin = 0; begin <= 20; ++begin) {
    for (uint64_t size = 0; begin + size <= 20; ++size) {
      std::vector<std::byte> out(size + 1, std::byte{99});
      copy_from_list(list, begin, size, out.data());
      for (uint64_t i = 0; i < size; ++i) ASSERT_EQ(out[i], static_cast<std::byte>(begin + i));
      ASSERT_EQ(out[size], std::byte{99});
    }
  }
  const std::byte marks[] = {std::byte{50}, std::byte{51}, std::byte{52}};
  copy_to_list(marks, list, 2, 3);
  EXPECT_EQ(values[1], 1);
  EXPECT_EQ(values[2], 50);
  EXPECT_EQ(values[3], 51);
  EXPECT_EQ(values[4], 52);
  EXPECT_EQ(values[5], 5);
}

}  // namespace
}  // namespace ffdl::comm
