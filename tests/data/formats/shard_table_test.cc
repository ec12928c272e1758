#include "data/formats/shard_table.h"

#include <gtest/gtest.h>

#include "data/shard_text.h"
#include "support/temp_folder.h"

namespace ffdl::data {
namespace {

using testing::bytes_of;
using testing::shard;

Result<SampleTable> find_in(const std::string& bytes, const ShardContents& said) {
  const TempFolder folder;
  auto file = InputFile::open(folder.write("some.shard", bytes));
  EXPECT_OK(file.status());
  FileScanner scanner(**file);
  return find_shard_samples(scanner, said);
}

TEST(ShardTable, SaysWhereSamplesLie) {
  const std::string bytes = shard({"one", "", "three"}, "anything");
  ASSERT_OK_AND_ASSIGN(const SampleTable table, find_in(bytes, {bytes.size(), 3}));
  EXPECT_EQ(table.listed, (std::vector<Extent>{{28, 3}, {31, 0}, {31, 5}}));
  EXPECT_EQ(table.format.bytes, 2U);
}

TEST(ShardTable, RefusesWhatTheIndexDoesNotSay) {
  const std::string bytes = shard({"one", "two"});
  EXPECT_FAILS(find_in(bytes, {bytes.size() + 1, 2}), StatusCode::kCorrupt,
               "it has 22 bytes and 23 in the index");
  EXPECT_FAILS(find_in(bytes, {bytes.size(), 3}), StatusCode::kCorrupt,
               "it has 2 samples and 3 in the index at byte 0");
}

TEST(ShardTable, RefusesOffsetsThatAreNone) {
  const auto words = [](std::vector<uint32_t> all) {
    std::string bytes;
    for (const uint32_t word : all) bytes += bytes_of(word);
    return bytes;
  };
  const struct {
    std::string bytes;
    uint64_t samples;
    const char* problem;
  } cases[] = {
      {"abc", 0, "it ends before its number of samples at byte 0"},
      {words({1, 12}), 1, "it ends within its offsets at byte 4"},
      {words({0xffffffff, 12}), 0xffffffff, "it ends within its offsets"},
      {words({1, 11, 12}), 1, "its first sample is within its offsets at byte 4"},
      {words({2, 16, 20, 18, 0}), 2, "an offset is wrong at byte 12"},
      {words({1, 12, 17, 0}), 1, "an offset is wrong at byte 8"},
      {words({1, 12, 15, 0}), 1, "bytes of no sample follow at byte 15"},
  };
  for (const auto& [bytes, samples, problem] : cases) {
    EXPECT_FAILS(find_in(bytes, {bytes.size(), samples}), StatusCode::kCorrupt, problem);
  }
}

TEST(ShardTable, NamesRowsThatAreKeptOtherwise) {
  const std::string bytes = shard({"", ""}) + "a table" + std::string("LDARW01\0", 8);
  EXPECT_FAILS(find_in(bytes, {bytes.size(), 2}), StatusCode::kUnimplemented,
               "a table of Arrow behind byte 16");
}

}  // namespace
}  // namespace ffdl::data
