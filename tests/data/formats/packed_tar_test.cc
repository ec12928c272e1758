#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/packed_text.h"
#include "data/source_text.h"
#include "support/program.h"
#include "support/temp_folder.h"

// Tests compressed archives; tar_source_test tests their contents.
namespace ffdl {
namespace {

using data::Packing;
using testing::noise;
using testing::pack;
using testing::tar_end;
using testing::tar_member;

// Returns the text "k.txt" of each sample.
std::vector<std::string> texts_in(const DataSource& source) {
  std::vector<std::string> texts;
  SampleBatch batch;
  EXPECT_OK(source.read(testing::all_of(source), batch));
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto fields = tar_fields(batch[i]);
    EXPECT_OK(fields.status());
    texts.push_back(testing::text_of(fields->at(0).bytes));
  }
  return texts;
}

TEST(PackedTar, IsReadHoweverItIsPacked) {
  const TempFolder folder;
  const std::string archive =
      tar_member("1.txt", "one") + tar_member("2.txt", noise(9000)) + tar_end();
  for (const Packing packing : testing::kPackings) {
    ASSERT_OK_AND_ASSIGN(const auto source,
                         open_tar_shards({folder.write("file", pack(packing, archive))}));
    EXPECT_EQ(texts_in(*source), (std::vector<std::string>{"one", noise(9000)}));
  }
}

TEST(PackedTar, ReadsWhatTarWrites) {
  const TempFolder folder;
  folder.write("in/a.txt", "first");
  folder.write("in/b.txt", noise(70'000));
  for (const char* option : {"--gzip", "--zstd"}) {
    const std::string path = folder.file("out.tar");
    const auto tar = run_program(
        fmt::format("cd '{}/in' && tar {} -cf '{}' a.txt b.txt 2>&1", folder.path(), option, path));
    ASSERT_EQ(tar.exit_code, 0) << tar.out;
    ASSERT_OK_AND_ASSIGN(const auto source, open_tar_shards({path}));
    EXPECT_EQ(texts_in(*source), (std::vector<std::string>{"first", noise(70'000)}));
  }
}

TEST(PackedTar, ThatWasCutShortFailsOrGivesItsBeginning) {
  const TempFolder folder;
  std::string archive;
  const std::string all = noise(600'000);
  const auto text = [&](size_t i) { return all.substr(6000 * i, 6000); };
  for (size_t i = 0; i < 100; ++i) archive += tar_member(fmt::format("{}.txt", i), text(i));
  // The other formats may put all of it in one block.
  for (const Packing packing : {Packing::kGzip, Packing::kZstd}) {
    const std::string packed = pack(packing, archive + tar_end());
    const std::string path = folder.write("file", packed.substr(0, packed.size() * 3 / 4));
    EXPECT_FAILS(open_tar_shards({path}), StatusCode::kCorrupt, "unpack '" + path + "'");
    const auto source = open_tar_shards({path}, {.skip_corrupt = true});
    ASSERT_OK(source.status());
    const auto texts = texts_in(**source);
    EXPECT_GT(texts.size(), 10U);
    EXPECT_LT(texts.size(), 100U);
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], text(i));
    EXPECT_GT((*source)->skipped().bytes, 0U);
  }
}

// The stream is complete, but the archive inside it is not.
TEST(PackedTar, OfAnArchiveThatIsCutNamesTheByteOfTheArchive) {
  const TempFolder folder;
  const std::string archive = tar_member("1.txt", "one") + tar_member("2.txt", "two");
  EXPECT_FAILS(open_tar_shards({folder.write("file", pack(Packing::kGzip, archive))}),
               StatusCode::kCorrupt, "at byte 2048 of 2048 unpacked");
}

}  // namespace
}  // namespace ffdl
