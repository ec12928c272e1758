#include "store/tcp/log_file.h"

#include <gtest/gtest.h>

#include <vector>

#include "store/local/files.h"
#include "support/low_limit.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

constexpr size_t kMagicBytes = 8;

using Records = std::vector<std::string>;

class LogFileTest : public ::testing::Test {
 protected:
  Result<LogFile> open() {
    records_.clear();
    return LogFile::open(path_, [this](std::string_view record) {
      records_.emplace_back(record);
      return Status();
    });
  }
  // Writes a log of these three records, and returns its bytes.
  std::string write_three() {
    auto log = open();
    for (const char* record : {"one", "two", "three"}) EXPECT_OK(log->append(record));
    return *read_file(path_);
  }
  void put(std::string_view bytes) { folder_.write("log", bytes); }

  const TempFolder folder_;
  const std::string path_ = folder_.file("log");
  Records records_;
};

TEST_F(LogFileTest, GivesItsRecordsAgain) {
  write_three();
  ASSERT_OK_AND_ASSIGN(LogFile log, open());
  EXPECT_EQ(records_, (Records{"one", "two", "three"}));
  EXPECT_EQ(log.cut(), 0U);
  ASSERT_OK(log.append(std::string("\0", 1)));
  ASSERT_OK(log.append(""));
  ASSERT_OK(open());
  EXPECT_EQ(records_, (Records{"one", "two", "three", std::string("\0", 1), ""}));
}

// A server may die at any byte of an append.
TEST_F(LogFileTest, ATornEndIsCutOffAtEveryByte) {
  const std::string whole = write_three();
  for (size_t bytes = kMagicBytes; bytes < whole.size(); ++bytes) {
    put(std::string_view(whole).substr(0, bytes));
    ASSERT_OK_AND_ASSIGN(LogFile log, open());
    const Records three{"one", "two", "three"};
    ASSERT_LT(records_.size(), three.size());
    EXPECT_TRUE(std::equal(records_.begin(), records_.end(), three.begin()));
    const Records before = records_;
    ASSERT_OK(log.append("next"));
    ASSERT_OK(open());
    EXPECT_EQ(records_.size(), before.size() + 1) << bytes;
    EXPECT_EQ(records_.back(), "next");
  }
}

// A log is created complete, so a truncated one has lost a store.
TEST_F(LogFileTest, OneThatIsCutToNothingIsCorrupt) {
  const std::string whole = write_three();
  for (size_t bytes = 0; bytes < kMagicBytes; ++bytes) {
    put(std::string_view(whole).substr(0, bytes));
    EXPECT_FAILS(open(), StatusCode::kCorrupt, "it ends too early");
  }
}

TEST_F(LogFileTest, ZerosThatACrashOfTheMachineLeavesAreCutOff) {
  const std::string whole = write_three();
  put(whole + std::string(100, '\0'));
  ASSERT_OK_AND_ASSIGN(const LogFile log, open());
  EXPECT_EQ(records_.size(), 3U);
  EXPECT_EQ(log.cut(), 100U);
}

// Changes each byte of a size, a checksum or a record. No record may be lost silently.
TEST_F(LogFileTest, AnyOtherByteIsCorrupt) {
  const std::string whole = write_three();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char change : {'\x01', '\x80'}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      put(bytes);
      EXPECT_FAILS(open(), StatusCode::kCorrupt, "at byte");
    }
  }
}

TEST_F(LogFileTest, ARecordInAnotherPlaceIsCorrupt) {
  const std::string whole = write_three();
  const size_t record = 24 + 3;
  put(whole.substr(0, 8) + whole.substr(8 + record, record) + whole.substr(8, record));
  EXPECT_FAILS(open(), StatusCode::kCorrupt, "size is wrong");
}

TEST_F(LogFileTest, OneRecordTakesThePlaceOfAll) {
  write_three();
  ASSERT_OK_AND_ASSIGN(LogFile log, open());
  const size_t before = log.bytes();
  ASSERT_OK(log.replace("all"));
  EXPECT_LT(log.bytes(), before);
  ASSERT_OK(log.append("more"));
  ASSERT_OK(open());
  EXPECT_EQ(records_, (Records{"all", "more"}));
}

TEST_F(LogFileTest, WhatTheReaderRefusesIsPassedOn) {
  write_three();
  EXPECT_FAILS(
      LogFile::open(path_,
                    [](std::string_view) { return Status(StatusCode::kCorrupt, "not mine"); }),
      StatusCode::kCorrupt, "not mine");
}

// Each descriptor that is needed to replace a log may be unavailable.
TEST_F(LogFileTest, WithoutADescriptorTheOldLogGoesOn) {
  write_three();
  ASSERT_OK_AND_ASSIGN(LogFile log, open());
  Records expected{"one", "two", "three"};
  for (rlim_t free = 0; free < 2; ++free) {
    const testing::LowLimit few(RLIMIT_NOFILE, testing::next_descriptor() + free);
    EXPECT_FAILS(log.replace("all"), StatusCode::kExhausted, "ulimit -n");
    expected.push_back("more " + std::to_string(free));
    EXPECT_OK(log.append(expected.back()));
  }
  ASSERT_OK(open());
  EXPECT_EQ(records_, expected);
  ASSERT_OK(log.replace("all"));
  ASSERT_OK(log.append("more"));
  ASSERT_OK(open());
  EXPECT_EQ(records_, (Records{"all", "more"}));
}

// Models a disk that is full after some bytes of a record.
TEST_F(LogFileTest, AFullDiskIsSaidAndLeavesTheLogWhole) {
  write_three();
  ASSERT_OK_AND_ASSIGN(LogFile log, open());
  const size_t before = log.bytes();
  {
    const testing::LowLimit full(RLIMIT_FSIZE, before + 30);
    EXPECT_FAILS(log.append("longer than the disk has room for"), StatusCode::kExhausted,
                 "File too large; raise the limit of the size of files ('ulimit -f')");
    EXPECT_OK(log.append("short"));
  }
  ASSERT_OK(log.append("more"));
  ASSERT_OK(open());
  EXPECT_EQ(records_, (Records{"one", "two", "three", "short", "more"}));
}

}  // namespace
}  // namespace ffdl::store
