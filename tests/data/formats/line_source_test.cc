#include <gtest/gtest.h>

#include "base/limits.h"
#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::read_texts;
using Texts = std::vector<std::string>;

TEST(OpenLines, ASampleIsALine) {
  const TempFolder folder;
  const auto lines = [&](const std::string& text) {
    auto source = open_lines({folder.write("file", text)});
    EXPECT_OK(source.status());
    return read_texts(**source);
  };
  EXPECT_EQ(lines("one\ntwo\n"), (Texts{"one", "two"}));
  EXPECT_EQ(lines("one\ntwo"), (Texts{"one", "two"}));
  EXPECT_EQ(lines("a\nb"), (Texts{"a", "b"}));
  EXPECT_EQ(lines("\n\none\r\n\n"), (Texts{"", "", "one\r", ""}));
  EXPECT_EQ(lines("\n"), Texts{""});
}

TEST(OpenLines, FindsLinesLongerThanWhatIsReadAtOnce) {
  const TempFolder folder;
  Texts lines;
  std::string text;
  for (const size_t size : {base::kScanBytes - 1, size_t{3}, 2 * base::kScanBytes, size_t{0},
                            base::kScanBytes - 6, size_t{9}}) {
    lines.emplace_back(size, static_cast<char>('a' + lines.size()));
    text += lines.back() + "\n";
  }
  ASSERT_OK_AND_ASSIGN(const auto source, open_lines({folder.write("file", text)}));
  EXPECT_EQ(read_texts(*source), lines);
  EXPECT_FALSE(source->format().is_fixed);
  EXPECT_EQ(source->format().bytes, (text.size() - lines.size()) / lines.size());
}

TEST(OpenLines, JsonIsChecked) {
  const TempFolder folder;
  const std::vector<std::string> paths = {folder.write("file", "{\"a\": 1}\n[2]\n\n{\"a\": \n")};
  ASSERT_OK_AND_ASSIGN(const auto source, open_json_lines(paths));
  EXPECT_EQ(read_texts(*source, {1, 0}), (Texts{"[2]", "{\"a\": 1}"}));
  SampleBatch batch;
  EXPECT_FAILS(source->read(std::vector<uint64_t>{3}, batch), StatusCode::kCorrupt,
               "the line is not JSON at byte 14");
  ASSERT_OK_AND_ASSIGN(const auto lenient, open_json_lines(paths, {.skip_corrupt = true}));
  EXPECT_EQ(read_texts(*lenient), (Texts{"{\"a\": 1}", "[2]", "(skipped)", "(skipped)"}));
  EXPECT_EQ(lenient->skipped().samples, 2U);
}

}  // namespace
}  // namespace ffdl
