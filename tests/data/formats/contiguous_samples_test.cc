#include "data/formats/contiguous_samples.h"

#include <gtest/gtest.h>

#include <array>

namespace ffdl::data {
namespace {

class Together : public ::testing::Test {
 protected:
  Together() {
    for (size_t i = 0; i < all_.size(); ++i) all_[i] = static_cast<std::byte>(i);
  }
  void expect_copied(std::span<const std::byte> together, const SampleSpans& samples) {
    ASSERT_EQ(together.size(), 5U);
    const int expected[] = {4, 5, 0, 1, 2};
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(together[i], static_cast<std::byte>(expected[i]));
    EXPECT_EQ(samples[0].data(), together.data());
    EXPECT_EQ(samples[1].data(), nullptr);
    EXPECT_EQ(samples[2].data(), together.data() + 2);
  }

  std::array<std::byte, 6> all_{};
  const std::span<const std::byte> bytes_{all_};
};

TEST_F(Together, InMemoryOfABatchOnlyWhatIsApartIsCopied) {
  SampleBatch memory;
  SampleSpans samples = {bytes_.subspan(1, 2), {}, bytes_.subspan(3, 1)};
  EXPECT_EQ(put_together(samples, memory).data(), all_.data() + 1);
  EXPECT_EQ(samples[2].data(), all_.data() + 3);

  samples = {bytes_.subspan(4, 2), {}, bytes_.subspan(0, 3)};
  const auto together = put_together(samples, memory);
  expect_copied(together, samples);

  samples.clear();
  EXPECT_TRUE(put_together(samples, memory).empty());
}

TEST_F(Together, InOtherMemoryAllIsCopied) {
  std::array<std::byte, 8> to{};
  to.fill(std::byte{9});
  SampleSpans samples = {bytes_.subspan(4, 2), {}, bytes_.subspan(0, 3)};
  EXPECT_EQ(bytes_together(samples), 5U);
  const auto together = put_together(samples, to);
  EXPECT_EQ(together.data(), to.data());
  expect_copied(together, samples);
  EXPECT_EQ(to[5], std::byte{9});

  samples = {bytes_.subspan(1, 2), bytes_.subspan(3, 1)};
  EXPECT_EQ(put_together(samples, to).data(), to.data());
  EXPECT_EQ(samples[1].data(), to.data() + 2);
  EXPECT_EQ(to[2], std::byte{3});
}

}  // namespace
}  // namespace ffdl::data
