#include "data/formats/packed_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "data/packed_text.h"
#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using data::Packing;
using testing::noise;
using testing::pack;
using testing::read_texts;
using testing::tf_record;
using Texts = std::vector<std::string>;

class PackedSourceTest : public ::testing::Test {
 protected:
  TempFolder folder_;
};

TEST_F(PackedSourceTest, LinesAreTheSameHoweverTheyArePacked) {
  std::vector<std::string> paths = {folder_.write("plain", "a\nbb\n")};
  Texts expected = {"a", "bb"};
  for (const Packing packing : testing::kPackings) {
    const std::string line = noise(5000);
    const std::string packed = pack(packing, line + "\n\nlast");
    paths.push_back(folder_.write(std::to_string(paths.size()), packed));
    expected.insert(expected.end(), {line, "", "last"});
  }
  for (const bool access : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const auto source, open_lines(paths, {.mapped = access}));
    EXPECT_EQ(read_texts(*source), expected);
    EXPECT_EQ(read_texts(*source, {4, 0, 3, 16}), (Texts{"last", "a", "", "last"}));
  }
}

TEST_F(PackedSourceTest, FilesThatDoNotFitAreUnpackedAgain) {
  std::vector<std::string> paths;
  for (int i = 0; i < 4; ++i) {
    const std::string text = std::string(1000, static_cast<char>('a' + i)) + "\n";
    paths.push_back(folder_.write(std::to_string(i), pack(Packing::kZstd, text + text)));
  }
  ASSERT_OK_AND_ASSIGN(const auto source, open_lines(paths, {.unpacked_bytes = 5000}));
  for (const uint64_t sample : {7, 0, 2, 5, 0, 1, 6}) {
    EXPECT_EQ(read_texts(*source, {sample}),
              Texts{std::string(1000, static_cast<char>('a' + sample / 2))});
  }
  EXPECT_FAILS(open_lines(paths, {.unpacked_bytes = 2001}), StatusCode::kExhausted,
               "more than the 2001 bytes");
}

TEST_F(PackedSourceTest, EachLineIsChecked) {
  const std::string path = folder_.write("file", pack(Packing::kGzip, "{}\nno\n[1]\n"));
  ASSERT_OK_AND_ASSIGN(const auto strict, open_json_lines({path}));
  SampleBatch batch;
  EXPECT_FAILS(strict->read(std::vector<uint64_t>{0, 1}, batch), StatusCode::kCorrupt,
               "read sample 1 of '" + path + "': the line is not JSON at byte 3");
  ASSERT_OK_AND_ASSIGN(const auto lenient, open_json_lines({path}, {.skip_corrupt = true}));
  EXPECT_EQ(read_texts(*lenient), (Texts{"{}", "(skipped)", "[1]"}));
  EXPECT_EQ(lenient->skipped().samples, 1U);
}

TEST_F(PackedSourceTest, AFileThatWasCutShortFailsOrGivesWhatIsWhole) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += fmt::format("{:09}\n", i * 7919 % 1'000'000);
  const std::string packed = pack(Packing::kGzip, text);
  const std::string path = folder_.write("file", packed.substr(0, packed.size() / 2));
  EXPECT_FAILS(open_lines({path}), StatusCode::kCorrupt,
               fmt::format("unpack '{}': the compressed data end too early at byte {}", path,
                           packed.size() / 2));
  ASSERT_OK_AND_ASSIGN(const auto source, open_lines({path}, {.skip_corrupt = true}));
  EXPECT_GT(source->samples(), 100U);
  EXPECT_LT(source->samples(), 20'000U);
  const Texts lines = read_texts(*source);
  for (size_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines[i], text.substr(10 * i, 9));
  EXPECT_NE(source->skipped().first.find("end too early"), std::string::npos);
}

TEST_F(PackedSourceTest, AFileThatIsAnotherWhenItIsUnpackedAgainIsAnError) {
  const std::string path = folder_.write("file", pack(Packing::kGzip, "1\n2\n3\n"));
  const std::string other = folder_.write("other", pack(Packing::kGzip, std::string(500, 'x')));
  for (const bool skip_corrupt : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const auto source, open_lines({path, other}, {.skip_corrupt = skip_corrupt,
                                                                       .unpacked_bytes = 500}));
    folder_.write("file", pack(Packing::kGzip, "1\n2345"));
    EXPECT_EQ(read_texts(*source, {3}).size(), 1U);  // this evicts the first file from memory
    SampleBatch batch;
    const Status status = source->read(std::vector<uint64_t>{0, 2}, batch);
    if (!skip_corrupt) {
      EXPECT_EQ(status.code(), StatusCode::kCorrupt) << status.to_string();
    } else {
      EXPECT_OK(status);
      EXPECT_EQ(batch.skipped(), 2U);
      EXPECT_EQ(source->skipped().samples, 2U);
    }
    folder_.write("file", pack(Packing::kGzip, "1\n2\n3\n"));
  }
}

TEST_F(PackedSourceTest, ARecordWhoseLengthLooksCompressedIsARecord) {
  const std::string data(0x88b1f, 'x');  // a length whose bytes begin as gzip does
  const std::string plain = tf_record(data);
  ASSERT_EQ(plain.substr(0, 3), "\x1f\x8b\x08");
  ASSERT_OK_AND_ASSIGN(const auto source,
                       open_tf_records({folder_.write("plain", plain),
                                        folder_.write("packed", pack(Packing::kGzip, plain))}));
  EXPECT_EQ(read_texts(*source), (Texts{data, data}));
}

// Copies from the unpacked file, without memory in between.
TEST_F(PackedSourceTest, CopiesIntoMemoryOfTheCaller) {
  ASSERT_OK_AND_ASSIGN(const auto lines,
                       open_lines({folder_.write("1", pack(Packing::kGzip, "one\n2\n\nfour\n"))}));
  const auto found = testing::read_texts_into(*lines, {3, 0, 2, 1});
  EXPECT_EQ(found.texts, (Texts{"four", "one", "", "2"}));
  EXPECT_EQ(found.allocations, 0);
  ASSERT_OK_AND_ASSIGN(const auto records,
                       open_tf_records({folder_.write(
                           "3", pack(Packing::kZstd, tf_record("one") + tf_record("two")))}));
  EXPECT_EQ(testing::read_texts_into(*records, {1, 0}).texts, (Texts{"two", "one"}));
}

TEST_F(PackedSourceTest, ReadsFromSeveralThreads) {
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i) {
    std::string text;
    for (int line = 0; line < 1000; ++line) text += fmt::format("{:04}\n", 1000 * i + line);
    paths.push_back(folder_.write(std::to_string(i), pack(Packing::kZstd, text)));
  }
  ASSERT_OK_AND_ASSIGN(const auto source, open_lines(paths, {.unpacked_bytes = 12'000}));
  std::vector<std::thread> threads;
  for (uint64_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (uint64_t i = first; i < 300; i += 4) {
        const uint64_t sample = i * 1171 % 3000;
        ASSERT_EQ(read_texts(*source, {sample}), Texts{fmt::format("{:04}", sample)});
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace ffdl
