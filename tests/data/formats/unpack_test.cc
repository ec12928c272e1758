#include "data/formats/unpack.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "data/packed_text.h"
#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl::data {
namespace {

using testing::noise;
using testing::pack;
using testing::text_of;

class UnpackTest : public ::testing::TestWithParam<Packing> {
 protected:
  std::unique_ptr<InputFile> file(const std::string& bytes) {
    auto opened = InputFile::open(folder_.write("file", bytes));
    EXPECT_OK(opened.status());
    return std::move(*opened);
  }
  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(All, UnpackTest, ::testing::ValuesIn(testing::kPackings));

TEST_P(UnpackTest, GivesWhatWasPacked) {
  for (const std::string& text : {std::string(), std::string("short"), noise(400'000)}) {
    // libarchive 3.6 cannot write lz4 of empty data.
    if (GetParam() == Packing::kLz4 && text.empty()) continue;
    const std::string packed = pack(GetParam(), text);
    EXPECT_EQ(packing_of(std::as_bytes(std::span(packed))), GetParam());
    ASSERT_OK_AND_ASSIGN(const Unpacked unpacked,
                         unpack(*file(packed), GetParam(), {.bytes = text.size()}));
    EXPECT_OK(unpacked.problem);
    EXPECT_EQ(text_of(unpacked.bytes), text);
  }
}

TEST_P(UnpackTest, GivesAllStreamsOfAFile) {
  const std::string text = noise(300'000);
  ASSERT_OK_AND_ASSIGN(
      const Unpacked unpacked,
      unpack(*file(pack(GetParam(), text) + pack(GetParam(), "second") + pack(GetParam(), text)),
             GetParam(), {.bytes = 1 << 20, .expected = 600'006}));
  EXPECT_OK(unpacked.problem);
  EXPECT_EQ(text_of(unpacked.bytes), text + "second" + text);
}

// Unpacked data is not unpacked once more.
TEST_P(UnpackTest, UnpacksOnce) {
  const std::string inner = pack(GetParam(), "inner");
  ASSERT_OK_AND_ASSIGN(const Unpacked unpacked,
                       unpack(*file(pack(GetParam(), inner)), GetParam(), {.bytes = 4096}));
  EXPECT_EQ(text_of(unpacked.bytes), inner);
}

TEST_P(UnpackTest, WhatIsCutShortGivesItsBeginningAndTheByte) {
  const std::string text = noise(300'000);
  const std::string packed = pack(GetParam(), text);
  for (const size_t size : {size_t{15}, size_t{100}, packed.size() / 2, packed.size() - 1}) {
    ASSERT_OK_AND_ASSIGN(const Unpacked unpacked,
                         unpack(*file(packed.substr(0, size)), GetParam(), {.bytes = 1 << 22}));
    EXPECT_EQ(unpacked.problem.code(), StatusCode::kCorrupt) << size;
    EXPECT_NE(unpacked.problem.message().find(folder_.file("file")), std::string::npos);
    EXPECT_NE(unpacked.problem.message().find(fmt::format("of {}", size)), std::string::npos)
        << unpacked.problem.message();
    EXPECT_LE(unpacked.unused, size);
    EXPECT_EQ(text_of(unpacked.bytes), text.substr(0, unpacked.bytes.size()));
  }
}

// Each of these formats has a checksum.
TEST_P(UnpackTest, SeesABitThatIsAnother) {
  const std::string text = noise(100'000);
  const std::string packed = pack(GetParam(), text);
  if (GetParam() == Packing::kZstd) GTEST_SKIP() << "libarchive writes zstd without checksums";
  for (size_t at = packed.size() / 3; at < packed.size(); at += packed.size() / 7) {
    std::string broken = packed;
    broken[at] ^= 16;
    ASSERT_OK_AND_ASSIGN(const Unpacked unpacked,
                         unpack(*file(broken), GetParam(), {.bytes = 1 << 20}));
    EXPECT_EQ(unpacked.problem.code(), StatusCode::kCorrupt) << at;
  }
}

TEST_P(UnpackTest, HoldsNoMoreThanItMay) {
  const std::string packed = pack(GetParam(), std::string(1'000'000, 'x'));
  EXPECT_FAILS(unpack(*file(packed), GetParam(), {.bytes = 999'999}), StatusCode::kExhausted,
               "more than the 999999 bytes of FileOptions::unpacked_bytes");
  EXPECT_OK(unpack(*file(packed), GetParam(), {.bytes = 1'000'000}).status());
}

TEST_P(UnpackTest, AFileThatShrinksIsAnError) {
  const auto opened = file(pack(GetParam(), noise(400'000)));
  std::filesystem::resize_file(opened->path(), 1000);
  EXPECT_FAILS(unpack(*opened, GetParam(), {.bytes = 1 << 20}), StatusCode::kCorrupt,
               "it ends at byte 1000 and had");
}

}  // namespace
}  // namespace ffdl::data
