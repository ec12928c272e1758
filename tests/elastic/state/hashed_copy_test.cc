#include "elastic/state/hashed_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "elastic/state/hash.h"

namespace ffdl::elastic {
namespace {

std::vector<std::byte> noise(size_t bytes) {
  std::vector<std::byte> all(bytes);
  uint32_t x = 1;
  for (std::byte& one : all) one = static_cast<std::byte>((x = x * 1664525 + 1013904223) >> 24);
  return all;
}

// Tests sizes around a vector and around a piece, from and to any address.
TEST(HashedCopy, OfAnySizeAtAnyAddress) {
  constexpr size_t kEdge = 70;
  const std::vector<std::byte> from = noise(100'000);
  for (const size_t bytes : {0U, 1U, 15U, 16U, 17U, 64U, 16'383U, 16'384U, 16'385U, 50'001U}) {
    for (const size_t skipped : {0U, 1U, 5U, 16U, 33U}) {
      for (const size_t begin : {0U, 3U, 16U, 40U}) {
        std::vector<std::byte> to(begin + bytes + kEdge, std::byte{7});
        Hash hash;
        hash.add(from.data() + skipped, bytes);
        Hash copied_hash;
        copy_and_hash(to.data() + begin, from.data() + skipped, bytes, copied_hash);
        EXPECT_EQ(copied_hash.digest(), hash.digest());
        const auto copied = to.begin() + static_cast<std::ptrdiff_t>(begin);
        const auto end = copied + static_cast<std::ptrdiff_t>(bytes);
        EXPECT_TRUE(std::equal(copied, end, from.begin() + static_cast<std::ptrdiff_t>(skipped)));
        const auto is_untouched = [](std::byte one) { return one == std::byte{7}; };
        EXPECT_TRUE(std::all_of(to.begin(), copied, is_untouched) &&
                    std::all_of(end, to.end(), is_untouched))
            << bytes << " bytes from " << skipped << " to " << begin;
      }
    }
  }
}

}  // namespace
}  // namespace ffdl::elastic
