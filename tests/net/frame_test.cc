#include "net/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

std::vector<std::string> frames_in(std::string_view bytes, size_t piece, size_t frame_max) {
  FrameReader reader(frame_max);
  std::vector<std::string> frames;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(bytes.substr(at, piece));
    for (auto frame = reader.next(); frame.ok() && frame->has_value(); frame = reader.next()) {
      frames.emplace_back(**frame);
    }
  }
  return frames;
}

TEST(Frame, ComesOutWholeHoweverTheBytesCome) {
  const std::vector<std::string> sent = {"one", "", std::string(1000, 'x'), std::string("\0\1", 2)};
  std::string bytes;
  for (const std::string& frame : sent) append_frame(bytes, frame);
  for (const size_t piece :
       {size_t{1}, size_t{2}, size_t{3}, size_t{5}, size_t{64}, bytes.size()}) {
    EXPECT_EQ(frames_in(bytes, piece, 1000), sent) << piece;
  }
}

TEST(Frame, OneThatIsTooLongIsRefusedBeforeItHasCome) {
  FrameReader reader(8);
  std::string bytes;
  append_frame(bytes, "12345678");
  append_frame(bytes, "123456789");
  reader.feed(std::string_view(bytes).substr(0, 16));  // only the length of the second frame
  ASSERT_OK_AND_ASSIGN(const auto first, reader.next());
  EXPECT_EQ(first, "12345678");
  EXPECT_FAILS(reader.next(), StatusCode::kCorrupt, "9 bytes, at most 8 are allowed");
  reader.set_frame_max(9);
  reader.feed(std::string_view(bytes).substr(16));
  ASSERT_OK_AND_ASSIGN(const auto second, reader.next());
  EXPECT_EQ(second, "123456789");
}

TEST(Frame, ForeignBytesAreOneThatIsTooLong) {
  FrameReader reader(1U << 20);
  reader.feed("GET / HTTP/1.1\r\n");
  EXPECT_FAILS(reader.next(), StatusCode::kCorrupt, "another program");
}

}  // namespace
}  // namespace ffdl::net
