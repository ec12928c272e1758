#include <gtest/gtest.h>

#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::read_texts;
using Texts = std::vector<std::string>;

TEST(OpenRecords, CutsAFileBehindItsHeader) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto source, open_records({folder.write("file", "head000111222")},
                                                       {.record_bytes = 3, .header_bytes = 4}));
  EXPECT_EQ(read_texts(*source), (Texts{"000", "111", "222"}));
  const SampleFormat format = source->format();
  EXPECT_EQ(format.dtype, "|u1");
  EXPECT_EQ(format.shape, std::vector<uint64_t>{3});
  EXPECT_EQ(format.bytes, 3U);
  EXPECT_TRUE(format.is_fixed);
}

TEST(OpenRecords, RefusesASizeThatDoesNotFit) {
  const TempFolder folder;
  const std::vector<std::string> paths = {folder.write("file", "0001112223")};
  EXPECT_FAILS(open_records(paths, {.record_bytes = 3}), StatusCode::kInvalidArgument,
               "1 bytes are left at byte 9 after 3 records of 3 bytes");
  EXPECT_FAILS(open_records(paths, {.record_bytes = 0}), StatusCode::kInvalidArgument,
               "record_bytes is 0");
  EXPECT_FAILS(open_records(paths, {.record_bytes = 1, .header_bytes = 11}),
               StatusCode::kInvalidArgument, "fewer than header_bytes 11");
}

TEST(OpenTokens, WindowsHoldInputAndTarget) {
  const TempFolder folder;
  const std::vector<std::string> paths = {folder.write("file", "aabbccddeeff")};
  ASSERT_OK_AND_ASSIGN(const auto source, open_tokens(paths, {.window = 2}));
  // Each token but the first is a target once; f is left over.
  EXPECT_EQ(read_texts(*source), (Texts{"aabbcc", "ccddee"}));
  EXPECT_EQ(source->format().dtype, "<u2");
  EXPECT_EQ(source->format().shape, std::vector<uint64_t>{3});
  EXPECT_EQ(source->skipped().bytes, 2U);
  EXPECT_NE(source->skipped().first.find("its last 1 tokens fill no window"), std::string::npos);

  ASSERT_OK_AND_ASSIGN(const auto sliding, open_tokens(paths, {.window = 3, .stride = 1}));
  EXPECT_EQ(read_texts(*sliding), (Texts{"aabbccdd", "bbccddee", "ccddeeff"}));
  EXPECT_EQ(sliding->skipped().bytes, 0U);

  ASSERT_OK_AND_ASSIGN(const auto wide,
                       open_tokens(paths, {.window = 1, .token_bytes = 4, .header_bytes = 4}));
  EXPECT_EQ(read_texts(*wide), Texts{"ccddeeff"});
  EXPECT_EQ(wide->format().dtype, "<u4");
}

TEST(OpenTokens, SaysWhatDoesNotFit) {
  const TempFolder folder;
  const std::vector<std::string> paths = {folder.write("file", "aabbc")};
  EXPECT_FAILS(open_tokens(paths, {.window = 2}), StatusCode::kInvalidArgument,
               "5 bytes are no whole number of tokens of 2");
  EXPECT_FAILS(open_tokens(paths, {.window = 0}), StatusCode::kInvalidArgument, "window is 0");
  EXPECT_FAILS(open_tokens(paths, {.window = 1, .token_bytes = 8}), StatusCode::kInvalidArgument,
               "token_bytes is 8");
  EXPECT_FAILS(open_tokens({folder.write("two", "aabb")}, {.window = 2}),
               StatusCode::kInvalidArgument, "there is no sample");
}

}  // namespace
}  // namespace ffdl
