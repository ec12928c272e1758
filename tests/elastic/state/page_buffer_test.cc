#include "elastic/state/page_buffer.h"

#include <gtest/gtest.h>

#include <cstring>

namespace ffdl::elastic {
namespace {

TEST(PageBuffer, ItBeginsAtAPageAndIsAsLargeAsWasAskedFor) {
  for (const uint64_t bytes : {1, 4097, 3 << 20}) {
    PageBuffer buffer;
    buffer.reserve(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0U) << bytes;
    std::memset(buffer.data(), 1, bytes);
  }
}

TEST(PageBuffer, OneThatIsLargeEnoughStays) {
  PageBuffer buffer;
  buffer.reserve(10'000);
  std::byte* const data = buffer.data();
  data[9'999] = std::byte{7};
  buffer.reserve(5'000);
  buffer.reserve(10'000);
  EXPECT_EQ(buffer.data(), data);
  EXPECT_EQ(data[9'999], std::byte{7});
}

}  // namespace
}  // namespace ffdl::elastic
