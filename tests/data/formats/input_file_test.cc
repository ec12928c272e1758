#include "data/formats/input_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/limits.h"
#include "data/source_text.h"
#include "support/sanitized.h"
#include "support/temp_folder.h"

namespace ffdl::data {
namespace {

using testing::text_of;

TEST(InputFile, SaysWhyItCannotBeOpened) {
  const TempFolder folder;
  EXPECT_FAILS(InputFile::open(folder.file("none")), StatusCode::kNotFound, "none': there is none");
  EXPECT_FAILS(InputFile::open(folder.path()), StatusCode::kInvalidArgument, "not a regular file");
  EXPECT_FAILS(InputFile::open(folder.write("file", "x") + "/below"), StatusCode::kUnavailable,
               "Not a directory");
  EXPECT_FAILS(InputFile::open(folder.file(std::string(300, 'x'))), StatusCode::kInvalidArgument,
               "File name too long");
}

// Models a million files of one sample each, with a smaller limit instead.
TEST(InputFile, TooManyFilesAreRefusedWithAWayOut) {
  FFDL_SKIP_WITHOUT_DESCRIPTORS_FOR_UBSAN();
  const TempFolder folder;
  std::vector<std::string> paths;
  for (int i = 0; i < 200; ++i) paths.push_back(folder.write(std::to_string(i), "line\n"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto source = open_lines(paths);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FAILS(source, StatusCode::kExhausted, "raise the limit of open files ('ulimit -n')");
  EXPECT_OK(open_lines(paths).status());
}

TEST(InputFile, ReadsAndMaps) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto file, InputFile::open(folder.write("file", "0123456789")));
  std::string text(4, '\0');
  ASSERT_OK(file->read(3, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "3456");
  ASSERT_OK(file->map());
  file->populate(2, 5);
  EXPECT_EQ(text_of(file->mapped(2, 5)), "23456");
}

TEST(InputFile, ReadsToManyPlaces) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto file, InputFile::open(folder.write("file", "0123456789")));
  std::string first(3, '\0');
  std::string second(4, '\0');
  std::vector<iovec> parts = {{second.data(), second.size()}, {first.data(), first.size()}};
  ASSERT_OK(file->read_parts(2, parts));
  EXPECT_EQ(second, "2345");
  EXPECT_EQ(first, "678");
  EXPECT_OK(file->read_parts(2, {}));
  parts = {{second.data(), second.size()}, {first.data(), first.size()}};
  EXPECT_FAILS(file->read_parts(5, parts), StatusCode::kCorrupt, "ends at byte 10");
}

TEST(InputFile, PopulatesPartsOfAnySizeAgainAndAgain) {
  const TempFolder folder;
  const std::string bytes(1'000'000, 'x');
  const std::string path = folder.write("file", bytes);
  ASSERT_OK_AND_ASSIGN(const auto file, InputFile::open(path));
  ASSERT_OK(file->map());
  for (const uint64_t offset : {0, 1, 65'535, 65'536, 999'999}) {
    for (int time = 0; time < 3; ++time) {
      file->populate(offset, bytes.size() - offset);
      EXPECT_EQ(text_of(file->mapped(offset, bytes.size() - offset)), bytes.substr(offset));
    }
  }
  file->populate(bytes.size(), 0);
}

TEST(InputFile, AFileThatWasCutShortIsSeen) {
  const TempFolder folder;
  const std::string path = folder.write("file", std::string(10'000, 'x'));
  ASSERT_OK_AND_ASSIGN(const auto file, InputFile::open(path));
  std::filesystem::resize_file(path, 11'000);
  EXPECT_OK(file->check_size());
  EXPECT_EQ(file->size(), 10'000U);
  std::filesystem::resize_file(path, 9'000);
  std::string text(2000, '\0');
  EXPECT_FAILS(file->read(8000, std::as_writable_bytes(std::span(text))), StatusCode::kCorrupt,
               "ends at byte 9000 and had 10000 bytes");
  EXPECT_FAILS(file->read(9500, std::as_writable_bytes(std::span(text).first(500))),
               StatusCode::kCorrupt, "ends at byte 9000 and had 10000 bytes");
  EXPECT_FAILS(file->check_size(), StatusCode::kCorrupt, "ends at byte 9000");
}

TEST(FileScanner, GivesTheSameBytesHoweverItIsAsked) {
  const TempFolder folder;
  std::string text(3 * base::kScanBytes + 77, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i ^ i >> 8);
  ASSERT_OK_AND_ASSIGN(const auto file, InputFile::open(folder.write("file", text)));
  for (const size_t step : {size_t{1000}, size_t{5000}, base::kScanBytes, base::kScanBytes + 1}) {
    for (const size_t bytes : {size_t{12}, size_t{999}, base::kScanBytes + 5}) {
      FileScanner scanner(*file);
      for (uint64_t at = 0; at < text.size() + step; at += step) {
        ASSERT_OK_AND_ASSIGN(const auto piece, scanner.at(at, bytes));
        ASSERT_EQ(text_of(piece), at < text.size() ? text.substr(at, bytes) : "") << at;
      }
    }
  }
}

}  // namespace
}  // namespace ffdl::data
