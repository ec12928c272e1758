#include <gtest/gtest.h>

#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

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
  SampleBatch batch;
  EXPECT_FAILS(source->read(std::vector<uint64_t>{6}, batch), StatusCode::kInvalidArgument,
               "read sample 6");
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
