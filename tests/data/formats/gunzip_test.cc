#include <gtest/gtest.h>

#include "data/formats/unpack.h"
#include "data/source_text.h"
#include "support/temp_folder.h"

// Tests gzip only; unpack_test tests the behaviour of all compression formats.
namespace ffdl::data {
namespace {

// Written by the program gzip, without a name or a time.
constexpr unsigned char kHello[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                    0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x86,
                                    0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00};

std::string hello() { return {reinterpret_cast<const char*>(kHello), sizeof kHello}; }

class Gunzip : public ::testing::Test {
 protected:
  Unpacked unpacked(const std::string& bytes) {
    auto file = InputFile::open(folder_.write("file", bytes));
    EXPECT_OK(file.status());
    auto result = gunzip(**file, {.bytes = 100});
    EXPECT_OK(result.status());
    return std::move(*result);
  }
  TempFolder folder_;
};

TEST_F(Gunzip, ReadsWhatGzipWrites) {
  const Unpacked once = unpacked(hello());
  EXPECT_OK(once.problem);
  EXPECT_EQ(testing::text_of(once.bytes), "hello");
  EXPECT_EQ(testing::text_of(unpacked(hello() + hello()).bytes), "hellohello");
}

TEST_F(Gunzip, ComparesTheChecksumAndTheSize) {
  for (const size_t at : {17, 20, 21, 24}) {
    std::string broken = hello();
    broken[at] ^= 1;
    const Status problem = unpacked(broken).problem;
    EXPECT_EQ(problem.code(), StatusCode::kCorrupt) << at;
    EXPECT_NE(problem.message().find(" check"), std::string::npos) << problem.message();
  }
}

TEST_F(Gunzip, WhatFollowsMustBeGzipToo) {
  const Status problem = unpacked(hello() + "rest").problem;
  EXPECT_EQ(problem.code(), StatusCode::kCorrupt);
  EXPECT_NE(problem.message().find("after 5 unpacked"), std::string::npos) << problem.message();
}

}  // namespace
}  // namespace ffdl::data
