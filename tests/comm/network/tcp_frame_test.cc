#include "comm/network/tcp_frame.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

TEST(TcpFrame, ComesBackFromItsHeader) {
  for (const TcpFrame& given :
       {TcpFrame{.tag = Tag::kInput, .number = 1, .bytes = ~uint64_t{0}},
        TcpFrame{.kind = FrameKind::kReceipt, .tag = Tag::kMessage, .number = 7}}) {
    ASSERT_OK_AND_ASSIGN(const TcpFrame got, frame_of(to_header(given), given.number));
    EXPECT_EQ(got.kind, given.kind);
    EXPECT_EQ(got.tag, given.tag);
    EXPECT_EQ(got.number, given.number);
    EXPECT_EQ(got.bytes, given.bytes);
  }
}

TEST(TcpFrame, AChangedBitBeforeTheLengthIsCorrupt) {
  const TcpFrame given = {.tag = Tag::kInput, .number = 5, .bytes = 100};
  constexpr size_t kLengthAt = 16;
  constexpr size_t kTagAt = 6;
  for (size_t byte = 0; byte < kLengthAt; ++byte) {
    if (byte == kTagAt) continue;  // may be another tag
    for (int bit = 0; bit < 8; ++bit) {
      FrameHeader header = to_header(given);
      header[byte] ^= std::byte{1} << bit;
      EXPECT_EQ(frame_of(header, given.number).status().code(), StatusCode::kCorrupt)
          << "byte " << byte << ", bit " << bit;
    }
  }
  FrameHeader header = to_header(given);
  header[kTagAt] = static_cast<std::byte>(kTagCount);
  EXPECT_FAILS(frame_of(header, given.number), StatusCode::kCorrupt, "bytes that are not a frame");
}

}  // namespace
}  // namespace ffdl::comm
