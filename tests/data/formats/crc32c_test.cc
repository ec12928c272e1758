#include "data/formats/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace ffdl::data {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Crc32c, IsTheOneOfThePublishedExamples) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(bytes("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43U);
}

TEST(Crc32c, TheProcessorAndTheTableAgree) {
  std::vector<std::byte> all(300);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * i + 7 * i);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; size < 40; ++size) {
      const auto part = std::span<const std::byte>(all).subspan(begin, size);
      EXPECT_EQ(crc32c(part), crc32c_by_table(part)) << begin << " " << size;
    }
  }
  EXPECT_EQ(crc32c(all), crc32c_by_table(all));
}

TEST(Crc32c, IsMaskedAsTfRecordDoes) {
  EXPECT_EQ(mask_crc(0), 0xa282ead8U);
  EXPECT_EQ(mask_crc(0x8000U), 0xa282ead9U);
  EXPECT_EQ(mask_crc(1), 0xa284ead8U);
}

}  // namespace
}  // namespace ffdl::data
