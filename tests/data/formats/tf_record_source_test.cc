#include <gtest/gtest.h>

#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::read_texts;
using testing::tf_record;
using Texts = std::vector<std::string>;

class OpenTfRecords : public ::testing::Test {
 protected:
  Result<std::unique_ptr<DataSource>> open(const std::string& bytes, bool skip_corrupt = false) {
    return open_tf_records({folder_.write("file", bytes)}, {.skip_corrupt = skip_corrupt});
  }
  TempFolder folder_;
};

TEST_F(OpenTfRecords, ASampleIsTheDataOfARecord) {
  const std::string large(100'000, 'x');
  ASSERT_OK_AND_ASSIGN(const auto source,
                       open(tf_record("one") + tf_record("") + tf_record(large) + tf_record("4")));
  EXPECT_EQ(read_texts(*source), (Texts{"one", "", large, "4"}));
  EXPECT_EQ(read_texts(*source, {3, 0}), (Texts{"4", "one"}));
}

// Written by another program, so that writer and reader cannot share an error.
TEST_F(OpenTfRecords, ReadsARecordWrittenElsewhere) {
  const std::string bytes("\x05\0\0\0\0\0\0\0\xea\xb2\x04\x3eHello\x8a\xee\xb9\xbe", 21);
  auto source = open(bytes);
  ASSERT_OK(source.status());
  EXPECT_EQ(read_texts(**source), Texts{"Hello"});
}

TEST_F(OpenTfRecords, WhatIsNoRecordFailsOrIsCounted) {
  const std::string good = tf_record("good");
  std::string bad_length = good;
  bad_length[2] ^= 1;
  const struct {
    std::string bytes;
    const char* problem;
  } cases[] = {
      {good + good.substr(0, 11), "the file ends within a record at byte 20 of 31"},
      {good + good.substr(0, 19), "the file ends within a record at byte 20 of 39"},
      {good + bad_length + good, "the checksum of the length of a record is wrong at byte 20"},
  };
  for (const auto& [bytes, problem] : cases) {
    EXPECT_FAILS(open(bytes), StatusCode::kCorrupt, problem);
    ASSERT_OK_AND_ASSIGN(const auto source, open(bytes, true));
    EXPECT_EQ(read_texts(*source), Texts{"good"});
    EXPECT_EQ(source->skipped().bytes, bytes.size() - good.size());
    EXPECT_NE(source->skipped().first.find(problem), std::string::npos);
  }
}

TEST_F(OpenTfRecords, ALengthThatOverflowsIsNoRecord) {
  const std::string length = testing::bytes_of(~uint64_t{0} - 3);
  EXPECT_FAILS(open(length + testing::masked_crc(length) + "1234"), StatusCode::kCorrupt,
               "the file ends within a record at byte 0");
}

}  // namespace
}  // namespace ffdl
