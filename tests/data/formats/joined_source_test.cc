#include <gtest/gtest.h>

#include "data/numbered_source.h"
#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::number_of;
using testing::NumberedSource;
using testing::read_texts;
using Texts = std::vector<std::string>;

TEST(JoinSources, FilesAreOneDataSetInTheirOrder) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto source,
                       open_lines({folder.write("1", "a\nbb\n"), folder.write("2", ""),
                                   folder.write("3", "ccc\n"), folder.write("4", "d\ne\nf\n")}));
  EXPECT_EQ(source->samples(), 6U);
  EXPECT_EQ(read_texts(*source), (Texts{"a", "bb", "ccc", "d", "e", "f"}));
  EXPECT_EQ(read_texts(*source, {5, 0, 2, 1, 3}), (Texts{"f", "a", "ccc", "bb", "d"}));
  EXPECT_EQ(testing::read_texts_into(*source, {5, 0, 2, 1, 3}).texts,
            (Texts{"f", "a", "ccc", "bb", "d"}));
  SampleBatch batch;
  EXPECT_FAILS(source->read(std::vector<uint64_t>{6}, batch), StatusCode::kInvalidArgument,
               "read sample 6");
}

// However the samples are mixed, each source is read once. So a compressed file is unpacked once
// per read.
TEST(JoinSources, AsksEachSourceOnce) {
  std::vector<std::unique_ptr<DataSource>> sources;
  std::vector<const NumberedSource*> each;
  for (const uint64_t samples : {10, 20, 30}) {
    auto source = std::make_unique<NumberedSource>(samples);
    if (samples == 20) source->skips_at = 7;
    each.push_back(source.get());
    sources.push_back(std::move(source));
  }
  ASSERT_OK_AND_ASSIGN(const auto source, join_sources(std::move(sources)));
  SampleBatch batch;
  ASSERT_OK(source->read(std::vector<uint64_t>{3}, batch));
  ASSERT_OK(source->read(std::vector<uint64_t>{59, 1, 17, 30, 2, 11, 31, 1}, batch));
  std::vector<int> numbers;
  for (size_t i = 0; i < batch.size(); ++i) {
    numbers.push_back(batch.is_skipped(i) ? -1 : static_cast<int>(number_of(batch[i])));
  }
  EXPECT_EQ(numbers, (std::vector<int>{3, 29, 1, -1, 0, 2, 1, 1, 1}));
  EXPECT_EQ(each[0]->reads, 2);
  EXPECT_EQ(each[1]->reads, 1);
  EXPECT_EQ(each[2]->reads, 1);
}

TEST(JoinSources, RefusesWhatIsNotAlike) {
  const TempFolder folder;
  const std::string path = folder.write("file", "01234567");
  std::vector<std::unique_ptr<DataSource>> sources;
  for (const uint64_t bytes : {2, 4}) {
    ASSERT_OK_AND_ASSIGN(auto source, open_records({path}, {.record_bytes = bytes}));
    sources.push_back(std::move(source));
  }
  EXPECT_FAILS(join_sources(std::move(sources)), StatusCode::kInvalidArgument,
               "source 1 are 4 bytes of '|u1'");
  EXPECT_FAILS(join_sources({}), StatusCode::kInvalidArgument, "no sample");
}

TEST(JoinSources, CountsWhatAllOfThemSkip) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      open_tokens({folder.write("1", "aabbccddee"), folder.write("2", "aabbcc")}, {.window = 2}));
  EXPECT_EQ(source->samples(), 3U);
  EXPECT_EQ(source->skipped().bytes, 0U);
  ASSERT_OK_AND_ASSIGN(
      const auto other,
      open_tokens({folder.write("1", "aabbccdd"), folder.write("2", "aabbccdd")}, {.window = 2}));
  EXPECT_EQ(other->skipped().bytes, 4U);
}

}  // namespace
}  // namespace ffdl
