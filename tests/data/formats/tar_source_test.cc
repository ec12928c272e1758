#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/source_text.h"
#include "support/program.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::tar_end;
using testing::tar_member;
using testing::text_of;
using Texts = std::vector<std::string>;

// Returns "key name=bytes name=bytes" of each sample.
Texts fields_of(const DataSource& source) {
  SampleBatch batch;
  EXPECT_OK(source.read(testing::all_of(source), batch));
  Texts samples;
  for (size_t i = 0; i < batch.size(); ++i) {
    auto fields = tar_fields(batch[i]);
    EXPECT_OK(fields.status());
    std::string text = fields->at(0).key;
    for (const TarField& field : *fields) {
      EXPECT_EQ(field.key, fields->at(0).key);
      text += fmt::format(" {}={}", field.name, text_of(field.bytes));
    }
    samples.push_back(text);
  }
  return samples;
}

class OpenTarShards : public ::testing::Test {
 protected:
  Result<std::unique_ptr<DataSource>> open(const std::string& bytes, FileOptions options = {}) {
    return open_tar_shards({folder_.write("file.tar", bytes)}, options);
  }
  TempFolder folder_;
};

TEST_F(OpenTarShards, ASampleIsAllFilesOfAKey) {
  const std::string archive = tar_member("./", "", '5') + tar_member("./1.png", "PNG") +
                              tar_member("./1.cls", "7") + tar_member("./2.cls", "") +
                              tar_member("./3.png", std::string(1000, 'p')) + tar_end();
  for (const bool access : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const auto source, open(archive, {.mapped = access}));
    EXPECT_EQ(fields_of(*source),
              (Texts{"./1 png=PNG cls=7", "./2 cls=", "./3 png=" + std::string(1000, 'p')}));
  }
}

TEST_F(OpenTarShards, ReadsWhatTarWrites) {
  const std::string deep = std::string(120, 'd');
  folder_.write("in/a.txt", "first");
  folder_.write("in/a.json", "{}");
  folder_.write("in/" + deep + "/b.txt", "second");
  for (const char* format : {"gnu", "pax", "ustar"}) {
    const std::string path = folder_.file("out.tar");
    const auto tar =
        run_program(fmt::format("cd '{}/in' && tar --format={} -cf '{}' a.txt a.json "
                                "{}/b.txt 2>&1",
                                folder_.path(), format, path, deep));
    ASSERT_EQ(tar.exit_code, 0) << tar.out;
    ASSERT_OK_AND_ASSIGN(const auto source, open_tar_shards({path}));
    EXPECT_EQ(fields_of(*source), (Texts{"a txt=first json={}", deep + "/b txt=second"})) << format;
  }
}

TEST_F(OpenTarShards, AnArchiveThatWasCutShortFailsOrIsCounted) {
  const std::string archive =
      tar_member("1.a", "one") + tar_member("2.a", std::string(600, '2')) + tar_end();
  const struct {
    size_t size;
    const char* problem;
  } cases[] = {
      {1024 + 512 + 1024, "the file ends without the end of the archive at byte 2560"},
      {1024 + 512 + 1023, "the file ends within '2.a' at byte 1024 of 2559"},
      {1024 + 511, "the file ends without the end of the archive at byte 1024"},
  };
  for (const auto& [size, problem] : cases) {
    const std::string cut = archive.substr(0, size);
    EXPECT_FAILS(open(cut), StatusCode::kCorrupt, problem);
    ASSERT_OK_AND_ASSIGN(const auto source, open(cut, {.skip_corrupt = true}));
    EXPECT_EQ(source->samples(), size == 2560 ? 2U : 1U);
    EXPECT_EQ(source->skipped().bytes, size == 2560 ? 0U : size - 1024);
    EXPECT_NE(source->skipped().first.find(problem), std::string::npos);
  }
}

TEST_F(OpenTarShards, ASampleThatLacksAFileIsLeftOut) {
  const std::string archive = tar_member("1.a", "one") + tar_member("2.a", "two");
  for (const std::string& broken :
       {tar_member("2.b", std::string(600, '2')).substr(0, 600), tar_member("2.a", "again")}) {
    ASSERT_OK_AND_ASSIGN(const auto source, open(archive + broken, {.skip_corrupt = true}));
    EXPECT_EQ(fields_of(*source), Texts{"1 a=one"});
    EXPECT_EQ(source->skipped().bytes, 1024 + broken.size());
  }
}

TEST_F(OpenTarShards, SaysWhatItCannotRead) {
  EXPECT_FAILS(open(tar_member("1.a", "") + tar_member("1.a", "") + tar_end()),
               StatusCode::kCorrupt, "'1.a' occurs twice in one sample at byte 512");
  EXPECT_FAILS(open(tar_member("1.a", "", '1') + tar_end()), StatusCode::kUnimplemented,
               "file.tar': a link");
  EXPECT_FAILS(open(tar_end()), StatusCode::kInvalidArgument, "no sample in its 1 files; name");
  EXPECT_FAILS(open("no archive", {.skip_corrupt = true}), StatusCode::kInvalidArgument,
               "no sample in its 1 files (open data file '");
}

TEST_F(OpenTarShards, OnlyASampleCanBeTakenApart) {
  const std::string text = "no archive";
  EXPECT_FAILS(tar_fields(std::as_bytes(std::span(text))), StatusCode::kCorrupt,
               "no whole member at byte 0 of 10");
}

}  // namespace
}  // namespace ffdl
