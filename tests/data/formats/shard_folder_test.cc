#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/packed_text.h"
#include "data/shard_text.h"
#include "ffdl/data/data_source.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using data::Packing;
using testing::mds_file;
using testing::mds_sample;
using testing::mds_shard;
using testing::pack;
using testing::read_texts;
using testing::shard;
using Texts = std::vector<std::string>;

class OpenMds : public ::testing::Test {
 protected:
  // Writes three shards: plain, compressed, and in both forms.
  void SetUp() override {
    std::vector<nlohmann::json> shards;
    for (int i = 0; i < 3; ++i) {
      const std::string bytes =
          shard({sample(2 * i), sample(2 * i + 1)}, "{\"what the format puts here\": 1}");
      const std::string name = fmt::format("shard.{:05}.mds", i);
      nlohmann::json json = mds_shard(2, mds_file(name, bytes, {"sha1", "xxh3_64"}));
      if (i != 1) folder_.write(name, bytes);
      if (i > 0) {
        const std::string packed = pack(Packing::kZstd, bytes);
        folder_.write(name + ".zstd", packed);
        json["compression"] = "zstd";
        json["zip_data"] = mds_file(name + ".zstd", packed, {"md5"});
      }
      shards.push_back(json);
    }
    folder_.write("index.json", testing::mds_index(shards));
  }
  static std::string sample(int i) { return mds_sample(i, fmt::format("text {}", i)); }
  Texts all() const {
    Texts texts;
    for (int i = 0; i < 6; ++i) texts.push_back(sample(i));
    return texts;
  }
  void change(const std::string& name, size_t at, char to) {
    std::fstream file(folder_.file(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(to);
  }
  TempFolder folder_;
};

TEST_F(OpenMds, ReadsShardsThatAreCompressedAndThatAreNot) {
  for (const bool access : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const auto source, open_mds({folder_.path()}, {.mapped = access}));
    EXPECT_EQ(read_texts(*source), all());
    EXPECT_EQ(read_texts(*source, {5, 2, 0}), (Texts{sample(5), sample(2), sample(0)}));
  }
  ASSERT_OK_AND_ASSIGN(const auto twice, open_mds({folder_.path(), folder_.path()}));
  EXPECT_EQ(twice->samples(), 12U);
}

TEST_F(OpenMds, ASampleIsTakenApartByItsColumns) {
  ASSERT_OK_AND_ASSIGN(const auto columns, shard_columns(folder_.path()));
  const std::string text = sample(5);
  ASSERT_OK_AND_ASSIGN(const auto fields, shard_fields(std::as_bytes(std::span(text)), columns));
  ASSERT_EQ(fields.size(), 2U);
  EXPECT_EQ(testing::text_of(fields[0]), testing::bytes_of(int64_t{5}));
  EXPECT_EQ(testing::text_of(fields[1]), "text 5");
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_FAILS(shard_fields(bytes.first(3), columns), StatusCode::kCorrupt,
               "ends before the sizes");
  EXPECT_FAILS(shard_fields(bytes.first(17), columns), StatusCode::kCorrupt,
               "a sample of 17 bytes with 2 columns apart: it ends within a column");
  EXPECT_FAILS(shard_fields(bytes, std::span(columns).first(1)), StatusCode::kCorrupt,
               "bytes of no column");
}

// Changes a byte of a text, which only a hash can detect.
TEST_F(OpenMds, AHashThatIsAnotherFailsOrLeavesTheShardOut) {
  change("shard.00000.mds", std::filesystem::file_size(folder_.file("shard.00000.mds")) - 1, 'X');
  ASSERT_OK_AND_ASSIGN(const auto strict, open_mds({folder_.path()}));
  SampleBatch batch;
  EXPECT_FAILS(strict->read(std::vector<uint64_t>{0}, batch), StatusCode::kCorrupt,
               "shard.00000.mds': its sha1 is");
  EXPECT_EQ(read_texts(*strict, {2, 4}), (Texts{sample(2), sample(4)}));
  ASSERT_OK_AND_ASSIGN(const auto lenient, open_mds({folder_.path()}, {.skip_corrupt = true}));
  EXPECT_EQ(read_texts(*lenient, {0, 1, 2}), (Texts{"(skipped)", "(skipped)", sample(2)}));
  EXPECT_EQ(lenient->skipped().samples, 2U);
  ASSERT_OK_AND_ASSIGN(const auto trusting, open_mds({folder_.path()}, {.check_hashes = false}));
  EXPECT_EQ(read_texts(*trusting, {0}), Texts{sample(0)});
}

TEST_F(OpenMds, ACompressedShardThatIsAnotherFailsOrIsLeftOut) {
  const std::string name = "shard.00001.mds.zstd";
  const std::string packed = folder_.file(name);
  const auto size = std::filesystem::file_size(packed);
  for (const bool check_hashes : {true, false}) {
    if (check_hashes) {
      change(name, size - 4, '\0');
    } else {
      std::filesystem::resize_file(packed, size - 4);
    }
    ASSERT_OK_AND_ASSIGN(const auto strict,
                         open_mds({folder_.path()}, {.check_hashes = check_hashes}));
    SampleBatch batch;
    const Status status = strict->read(std::vector<uint64_t>{2}, batch);
    EXPECT_EQ(status.code(), StatusCode::kCorrupt);
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find("its md5 is") != std::string::npos, check_hashes);
  }
  ASSERT_OK_AND_ASSIGN(const auto lenient, open_mds({folder_.path()}, {.skip_corrupt = true}));
  EXPECT_EQ(read_texts(*lenient, {3, 4}), (Texts{"(skipped)", sample(4)}));
}

TEST_F(OpenMds, AShardThatIsNotThereOrTooShort) {
  const std::string plain = folder_.file("shard.00000.mds");
  std::filesystem::resize_file(plain, 30);
  EXPECT_FAILS(open_mds({folder_.path()}), StatusCode::kCorrupt,
               "it has 30 bytes and 84 in the index");
  ASSERT_OK_AND_ASSIGN(const auto lenient, open_mds({folder_.path()}, {.skip_corrupt = true}));
  EXPECT_EQ(read_texts(*lenient, {1, 2}), (Texts{"(skipped)", sample(2)}));
  std::filesystem::remove(plain);
  EXPECT_FAILS(open_mds({folder_.path()}, {.skip_corrupt = true}), StatusCode::kNotFound,
               "shard.00000.mds': there is none");
  EXPECT_FAILS(open_mds({folder_.file("nowhere")}), StatusCode::kNotFound, "nowhere/index.json");
  EXPECT_FAILS(open_mds({}), StatusCode::kInvalidArgument, "no folder");
  EXPECT_FAILS(open_litdata({folder_.path()}), StatusCode::kCorrupt,
               "index.json': it is not an index of LitData");
}

TEST_F(OpenMds, HoldsNoMoreThanItMay) {
  ASSERT_OK_AND_ASSIGN(const auto source, open_mds({folder_.path()}, {.unpacked_bytes = 10}));
  SampleBatch batch;
  EXPECT_FAILS(source->read(std::vector<uint64_t>{2}, batch), StatusCode::kExhausted,
               "shard.00001.mds.zstd': it holds more than the 10 bytes");
}

TEST(OpenLitdata, ReadsChunksThatAreCompressedAndThatAreNot) {
  for (const bool is_packed : {false, true}) {
    const TempFolder folder;
    const std::string first = testing::shard_sample({"\1\0", "image"});
    const std::string second = testing::shard_sample({"\2", ""});
    const std::string bytes = shard({first, second});
    nlohmann::json config = testing::litdata_config();
    const std::string name = is_packed ? "chunk-0-0.zstd.bin" : "chunk-0-0.bin";
    if (is_packed) config["compression"] = "zstd";
    folder.write(name, is_packed ? pack(Packing::kZstd, bytes) : bytes);
    folder.write("index.json",
                 testing::litdata_index(config, {testing::litdata_chunk(name, 2, bytes.size())}));
    ASSERT_OK_AND_ASSIGN(const auto source, open_litdata({folder.path()}));
    EXPECT_EQ(read_texts(*source, {1, 0}), (Texts{second, first}));
    ASSERT_OK_AND_ASSIGN(const auto columns, shard_columns(folder.path()));
    ASSERT_OK_AND_ASSIGN(const auto fields, shard_fields(std::as_bytes(std::span(first)), columns));
    EXPECT_EQ(columns.at(1).name, "image");
    EXPECT_EQ(testing::text_of(fields.at(1)), "image");
    if (!is_packed) continue;
    // LitData leaves its unpacked file beside the shard.
    folder.write("chunk-0-0.bin", bytes);
    folder.write(name, "no longer whole");
    ASSERT_OK_AND_ASSIGN(const auto unpacked, open_litdata({folder.path()}));
    EXPECT_EQ(read_texts(*unpacked, {1, 0}), (Texts{second, first}));
  }
}

}  // namespace
}  // namespace ffdl
