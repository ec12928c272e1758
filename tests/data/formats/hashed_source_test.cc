#include "data/formats/hashed_source.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/errors.h"
#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl::data {
namespace {

using testing::read_texts;
using Texts = std::vector<std::string>;

// Opens the lines of a file whose expected sha1 is that of "one\ntwo\n".
std::unique_ptr<HashedSource> open_hashed(const std::string& path, bool skip_corrupt) {
  auto file = InputFile::open(path);
  EXPECT_OK(file.status());
  const FindSamples find = [](FileScanner&, bool) -> Result<SampleTable> {
    SampleTable table;
    add_listed(table, {{0, 3}, {4, 3}});
    return table;
  };
  auto source = open_file(std::move(*file), {.skip_corrupt = skip_corrupt}, find);
  EXPECT_OK(source.status());
  std::vector<Digest> digests = {
      {"sha1", digest_of("sha1", std::as_bytes(std::span("one\ntwo\n", 8)))}};
  return std::make_unique<HashedSource>(std::move(*source), std::move(digests), skip_corrupt);
}

TEST(HashedSource, GivesTheSamplesOfAFileThatIsWhatItShouldBe) {
  const TempFolder folder;
  const auto source = open_hashed(folder.write("file", "one\ntwo\n"), false);
  EXPECT_EQ(read_texts(*source, {1, 0}), (Texts{"two", "one"}));
  EXPECT_EQ(source->format().bytes, 3U);
}

TEST(HashedSource, RefusesAnotherFileAsAWhole) {
  const TempFolder folder;
  const std::string path = folder.write("file", "one\ntwO\n");
  const auto strict = open_hashed(path, false);
  SampleBatch batch;
  for (int time = 0; time < 2; ++time) {
    EXPECT_FAILS(strict->read(std::vector<uint64_t>{0}, batch), StatusCode::kCorrupt,
                 "its sha1 is");
  }
  const auto lenient = open_hashed(path, true);
  EXPECT_EQ(read_texts(*lenient), (Texts{"(skipped)", "(skipped)"}));
  EXPECT_EQ(lenient->skipped().samples, 2U);
  EXPECT_NE(lenient->skipped().first.find("its sha1 is"), std::string::npos);
}

TEST(HashedSource, OfAFileThatIsKnownToBeWrongHasSamplesThatAreLeftOut) {
  const HashedSource source("some.file", 3, base::make_error(StatusCode::kCorrupt, "it is broken"),
                            true);
  EXPECT_EQ(read_texts(source), (Texts{"(skipped)", "(skipped)", "(skipped)"}));
  EXPECT_EQ(source.skipped().first, "it is broken");
}

}  // namespace
}  // namespace ffdl::data
