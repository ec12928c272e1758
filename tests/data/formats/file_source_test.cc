#include "data/formats/file_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "data/source_text.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using testing::read_texts;
using testing::read_texts_into;
using ::testing::TestWithParam;
using testing::tf_record;
using Texts = std::vector<std::string>;

// Returns records "0000".."9999", of 4 bytes.
std::string numbers(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{:04}", i);
  return text;
}

class FileSourceTest : public TestWithParam<bool> {
 protected:
  FileOptions options(bool skip_corrupt = false) const {
    return {.mapped = GetParam(), .skip_corrupt = skip_corrupt};
  }
  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Access, FileSourceTest, ::testing::Values(false, true));

TEST_P(FileSourceTest, ReadsDenseAndScatteredSamplesInTheOrderAskedFor) {
  ASSERT_OK_AND_ASSIGN(const auto source, open_records({folder_.write("file", numbers(10'000))},
                                                       {.record_bytes = 4}, options()));
  EXPECT_EQ(read_texts(*source, {7, 3, 5}), (Texts{"0007", "0003", "0005"}));
  EXPECT_EQ(read_texts(*source, {9999, 0, 5000, 5000}), (Texts{"9999", "0000", "5000", "5000"}));
  EXPECT_EQ(read_texts(*source, {}), Texts{});
}

// Models a part of a window of partitions. The samples are too far apart for one read, and too
// close for a read each. Some are adjacent, and some are requested twice.
TEST_P(FileSourceTest, ReadsSmallSamplesWithGapsBetweenThem) {
  ASSERT_OK_AND_ASSIGN(const auto source, open_records({folder_.write("file", numbers(10'000))},
                                                       {.record_bytes = 4}, options()));
  std::vector<uint64_t> indices = {9998, 9001, 9000, 9999};
  for (uint64_t i = 0; i < 2000; ++i) indices.push_back(i * 7 % 2000 * 4);
  indices.push_back(indices[9]);
  Texts expected;
  for (const uint64_t index : indices) expected.push_back(fmt::format("{:04}", index));
  EXPECT_EQ(read_texts(*source, indices), expected);
}

// Reads the rest of one partition, all of another and a few samples of a third, shuffled. Each part
// of the file is read once, and announced for reading ahead.
TEST_P(FileSourceTest, ReadsSmallSamplesOfSeveralPartitions) {
  const uint64_t partition = (uint64_t{3} << 20) / 64;
  std::string bytes;
  for (uint64_t i = 0; i < 3 * partition; ++i) bytes += fmt::format("{:064}", i);
  ASSERT_OK_AND_ASSIGN(const auto source, open_records({folder_.write("file", bytes)},
                                                       {.record_bytes = 64}, options()));
  const uint64_t begins[] = {2 * partition, 0, partition};
  const uint64_t counts[] = {30, 1000, 3};
  for (const bool in_turn : {false, true}) {
    std::vector<uint64_t> indices;
    Texts expected;
    for (uint64_t i = 0; i < 1000; ++i) {
      for (size_t part = 0; part < 3; ++part) {
        if (i >= counts[part]) continue;
        indices.push_back(begins[part] + i * 7 % counts[part]);
      }
    }
    if (!in_turn)
      std::stable_sort(indices.begin(), indices.end(),
                       [&](uint64_t a, uint64_t b) { return a / partition > b / partition; });
    for (const uint64_t index : indices) expected.push_back(fmt::format("{:064}", index));
    SampleBatch batch;
    ASSERT_OK(source->read(indices, batch));
    ASSERT_EQ(batch.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(testing::text_of(batch[i]), expected[i]);
    ASSERT_EQ(batch.stretches().size(), 3U);
    EXPECT_EQ(testing::text_of(batch.stretches()[0]), bytes.substr(0, 64 * 1000));
    EXPECT_EQ(testing::text_of(batch.stretches()[1]), bytes.substr(64 * partition, 64 * 3));
    EXPECT_EQ(testing::text_of(batch.stretches()[2]), bytes.substr(2 * 64 * partition, 64 * 30));
    EXPECT_EQ(read_texts_into(*source, indices, 0).texts, expected);
  }
}

// Large samples are read each to its own place. There are more than one system call takes. Some are
// requested twice, some are apart, and one is empty.
TEST_P(FileSourceTest, ReadsLargeSamplesInTheOrderAskedFor) {
  const auto line = [](uint64_t i) {
    return i == 5 ? std::string() : std::string(4100 + i % 7, static_cast<char>('a' + i % 26));
  };
  std::string bytes;
  std::vector<uint64_t> indices;
  for (uint64_t i = 0; i < 1200; ++i) {
    bytes += line(i) + '\n';
    indices.push_back(i * 7 % 1200);
  }
  indices.push_back(5);
  indices.push_back(indices[3]);
  ASSERT_OK_AND_ASSIGN(const auto source, open_lines({folder_.write("file", bytes)}, options()));
  const Texts texts = read_texts(*source, indices);
  ASSERT_EQ(texts.size(), indices.size());
  for (size_t i = 0; i < indices.size(); ++i) ASSERT_EQ(texts[i], line(indices[i])) << i;

  std::string records;
  for (uint64_t i = 0; i < 1200; ++i) records += std::string(5000, line(i + 6)[0]);
  ASSERT_OK_AND_ASSIGN(const auto fixed, open_records({folder_.write("records", records)},
                                                      {.record_bytes = 5000}, options()));
  const Texts found = read_texts(*fixed, indices);
  for (size_t i = 0; i < indices.size(); ++i) {
    ASSERT_EQ(found[i], std::string(5000, line(indices[i] + 6)[0])) << i;
  }
}

// Tests the samples that are read directly into that memory and those copied from the batch's
// memory.
TEST_P(FileSourceTest, ReadsIntoMemoryOfTheCaller) {
  std::string lines;
  std::string large_lines;
  for (int i = 0; i < 20; ++i) lines += fmt::format("{}{}\n", i, i == 4 ? "" : "...");
  for (char c = 'a'; c < 'f'; ++c) large_lines += std::string(5000 + c, c) + '\n';
  const auto opened = [&](auto open, const char* name, const std::string& bytes, const auto& more) {
    return std::move(open(std::vector<std::string>{folder_.write(name, bytes)}, more, options()))
        .value();
  };
  const auto opened_lines = [&](const char* name, const std::string& bytes) {
    return std::move(open_lines({folder_.write(name, bytes)}, options())).value();
  };
  const auto small = opened(open_records, "1", numbers(10'000), RecordOptions{.record_bytes = 4});
  const auto large =
      opened(open_records, "2", numbers(10'000), RecordOptions{.record_bytes = 8000});
  const auto short_lines = opened_lines("3", lines);
  const auto long_lines = opened_lines("4", large_lines);
  const auto overlapping =
      opened(open_tokens, "5", numbers(100), TokenOptions{.window = 3, .stride = 1});
  const auto in_a_row =
      opened(open_tokens, "6", numbers(100), TokenOptions{.window = 3, .stride = 4});
  const struct {
    const char* what;
    const DataSource& source;
    std::vector<uint64_t> indices;
    int allocations;
  } cases[] = {
      {"close together, in another order", *small, {7, 3, 5}, 1},
      {"one behind the other", *small, {5, 6, 7}, 0},
      {"one alone", *small, {8}, 0},
      {"twice", *small, {0, 0, 1, 3}, 1},
      {"far apart", *small, {9999, 0, 5000, 5000}, 0},
      {"none", *small, {}, 0},
      {"large", *large, {2, 0, 1}, 0},
      {"with ends of lines between them", *short_lines, {3, 4, 5}, 1},
      {"large, of different sizes, with ends of lines", *long_lines, {3, 4, 0, 1}, 0},
      {"overlapping", *overlapping, {4, 5, 6, 7}, 1},
      {"windows in a row", *in_a_row, {1, 2, 3}, 0},
  };
  for (const auto& [what, source, indices, allocations] : cases) {
    for (const size_t spare : {0, 100}) {
      const auto found = read_texts_into(source, indices, spare);
      EXPECT_EQ(found.texts, read_texts(source, indices)) << what;
      EXPECT_EQ(found.allocations, GetParam() ? 0 : allocations) << what;
    }
  }
}

// The reads include checksums, or other samples that are left out.
TEST_P(FileSourceTest, WhatLiesBetweenSamplesIsNotInMemoryOfTheCaller) {
  std::string bytes;
  for (char c = 'a'; c < 'f'; ++c) bytes += tf_record(std::string(5000, c));
  bytes[3 * 5016 + 100] ^= 1;
  ASSERT_OK_AND_ASSIGN(const auto records,
                       open_tf_records({folder_.write("records", bytes)}, options(true)));
  for (const size_t spare : {0, 3, 1000, 10'000}) {
    for (const std::vector<uint64_t>& indices :
         {std::vector<uint64_t>{0, 1, 2, 3, 4}, {4, 3, 3, 0, 2, 1}}) {
      EXPECT_EQ(read_texts_into(*records, indices, spare).texts, read_texts(*records, indices));
    }
  }
}

TEST_P(FileSourceTest, SaysWhereTinySamplesLieThatAreUsedInAnotherOrder) {
  ASSERT_OK_AND_ASSIGN(const auto source, open_records({folder_.write("file", numbers(10'000))},
                                                       {.record_bytes = 4}, options()));
  const auto larger = [&](uint64_t bytes) {
    return open_records({folder_.write("large", numbers(10'000))}, {.record_bytes = bytes},
                        options());
  };
  ASSERT_OK_AND_ASSIGN(const auto medium, larger(400));
  ASSERT_OK_AND_ASSIGN(const auto large, larger(8000));
  const struct {
    const DataSource& source;
    std::vector<uint64_t> indices;
    std::vector<std::string> stretches;
  } cases[] = {
      {*source, {7, 5, 6}, {"000500060007"}},
      {*source, {5, 6, 7}, {}},
      {*source, {9999, 0}, {}},
      {*medium, {2, 0, 1}, {}},
      {*large, {2, 0, 1}, {}},
  };
  for (const auto& [from, indices, stretches] : cases) {
    SampleBatch batch;
    ASSERT_OK(from.read(indices, batch));
    std::vector<std::string> found;
    for (const auto& stretch : batch.stretches()) found.push_back(testing::text_of(stretch));
    EXPECT_EQ(found, stretches);
  }
}

TEST_P(FileSourceTest, ReadsLargeWindowsThatOverlap) {
  std::string bytes(12'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i / 2 % 251);
  ASSERT_OK_AND_ASSIGN(const auto source, open_tokens({folder_.write("file", bytes)},
                                                      {.window = 2999, .stride = 500}, options()));
  const Texts texts = read_texts(*source, {3, 0, 6});
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(texts[0], bytes.substr(3000, 6000));
  EXPECT_EQ(texts[1], bytes.substr(0, 6000));
  EXPECT_EQ(texts[2], bytes.substr(6000, 6000));
}

TEST_P(FileSourceTest, RefusesASampleThatIsNotThere) {
  ASSERT_OK_AND_ASSIGN(const auto source, open_records({folder_.write("file", numbers(3))},
                                                       {.record_bytes = 4}, options()));
  SampleBatch batch;
  EXPECT_FAILS(source->read(std::vector<uint64_t>{0, 3}, batch), StatusCode::kInvalidArgument,
               "read sample 3 of");
}

TEST_P(FileSourceTest, AFileThatShrinksWhileItIsReadIsAnError) {
  const std::string path = folder_.write("file", numbers(10'000));
  ASSERT_OK_AND_ASSIGN(const auto source, open_records({path}, {.record_bytes = 4}, options()));
  SampleBatch batch;
  const std::vector<uint64_t> indices = {0, 9999};
  ASSERT_OK(source->read(indices, batch));
  std::filesystem::resize_file(path, 30'000);
  EXPECT_FAILS(source->read(indices, batch), StatusCode::kCorrupt, path);
  std::filesystem::resize_file(path, 40'000);
  EXPECT_OK(source->read(indices, batch));
}

TEST_P(FileSourceTest, CorruptSamplesFailOrAreCounted) {
  std::string bytes = tf_record("good") + tf_record("evil") + tf_record("fine");
  bytes[bytes.find("evil")] ^= 1;
  const std::string path = folder_.write("file", bytes);
  ASSERT_OK_AND_ASSIGN(const auto strict, open_tf_records({path}, options()));
  SampleBatch batch;
  EXPECT_FAILS(
      strict->read(std::vector<uint64_t>{0, 1}, batch), StatusCode::kCorrupt,
      fmt::format("read sample 1 of '{}': the checksum of the data is wrong at byte 32", path));
  EXPECT_EQ(read_texts(*strict, {2, 0}), (Texts{"fine", "good"}));
  EXPECT_EQ(strict->skipped().samples, 0U);

  ASSERT_OK_AND_ASSIGN(const auto lenient, open_tf_records({path}, options(true)));
  EXPECT_EQ(read_texts(*lenient), (Texts{"good", "(skipped)", "fine"}));
  EXPECT_EQ(lenient->skipped().samples, 1U);
  EXPECT_NE(lenient->skipped().first.find("sample 1"), std::string::npos);
}

TEST_P(FileSourceTest, ReadsFromSeveralThreads) {
  ASSERT_OK_AND_ASSIGN(const auto source, open_records({folder_.write("file", numbers(10'000))},
                                                       {.record_bytes = 4}, options()));
  std::vector<std::thread> threads;
  for (uint64_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (uint64_t i = first; i < 2000; i += 4) {
        ASSERT_EQ(read_texts(*source, {i, 5 * i}),
                  (Texts{fmt::format("{:04}", i), fmt::format("{:04}", 5 * i)}));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// The copied samples stay valid, as that access mode promises.
TEST(FileSource, CopiedSamplesOutliveTheFile) {
  const TempFolder folder;
  const std::string path = folder.write("file", numbers(10'000));
  ASSERT_OK_AND_ASSIGN(const auto source, open_records({path}, {.record_bytes = 4}));
  SampleBatch batch;
  ASSERT_OK(source->read(std::vector<uint64_t>{1, 9999}, batch));
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(testing::texts_of(batch), (Texts{"0001", "9999"}));
}

TEST(FileSource, NoFileIsNoDataSet) {
  EXPECT_FAILS(open_records({}, {.record_bytes = 4}), StatusCode::kInvalidArgument, "no file");
  const TempFolder folder;
  EXPECT_FAILS(open_records({folder.write("empty", "")}, {.record_bytes = 4}),
               StatusCode::kInvalidArgument, "there is no sample");
  EXPECT_FAILS(open_lines({folder.file("none")}), StatusCode::kNotFound, "none");
}

}  // namespace
}  // namespace ffdl
