#include "data/formats/shard_index.h"

#include <gtest/gtest.h>

#include "data/shard_text.h"

namespace ffdl::data {
namespace {

using Json = nlohmann::json;
using testing::litdata_chunk;
using testing::litdata_config;
using testing::litdata_index;
using testing::mds_file;
using testing::mds_index;
using testing::mds_shard;

Json shard_json() { return mds_shard(3, mds_file("shard.00000.mds", "bytes", {"sha1"})); }

TEST(MdsIndex, TellsOfShardsAndColumns) {
  Json packed = shard_json();
  packed["compression"] = "zstd:7";
  packed["zip_data"] = mds_file("below/shard.00001.mds.zstd", "less", {"xxh64", "md5"});
  ASSERT_OK_AND_ASSIGN(const ShardIndex index, parse_mds_index(mds_index({shard_json(), packed})));
  ASSERT_EQ(index.shards.size(), 2U);
  EXPECT_EQ(index.shards[0].plain.name, "shard.00000.mds");
  EXPECT_EQ(index.shards[0].plain.digests.at(0).algorithm, "sha1");
  EXPECT_EQ(index.shards[0].bytes, 5U);
  EXPECT_EQ(index.shards[0].samples, 3U);
  EXPECT_EQ(index.shards[0].packed.name, "");
  EXPECT_EQ(index.shards[1].packing, Packing::kZstd);
  EXPECT_EQ(index.shards[1].packed.name, "below/shard.00001.mds.zstd");
  EXPECT_EQ(index.shards[1].packed.digests.size(), 2U);
  ASSERT_EQ(index.columns.size(), 2U);
  EXPECT_EQ(index.columns[0].name, "label");
  EXPECT_EQ(index.columns[0].encoding, "int");
  EXPECT_EQ(index.columns[0].bytes, 8U);
  EXPECT_EQ(index.columns[1].bytes, 0U);
}

TEST(MdsIndex, RefusesWhatIsNone) {
  const struct {
    const char* at;  // a pointer into a shard's JSON
    Json value;
    StatusCode code;
    const char* problem;
  } cases[] = {
      {"/format", "json", StatusCode::kUnimplemented, "a shard is of format 'json', version 2"},
      {"/version", 1, StatusCode::kUnimplemented, "version 1"},
      {"/version", nullptr, StatusCode::kCorrupt, "does not name its format and version"},
      {"/samples", -1, StatusCode::kCorrupt, "has no number of samples"},
      {"/samples", uint64_t{1} << 63, StatusCode::kCorrupt, "has no number of samples"},
      {"/raw_data", nullptr, StatusCode::kCorrupt, "no name"},
      {"/raw_data/basename", "../shard", StatusCode::kCorrupt,
       "no name, or a name outside its folder"},
      {"/raw_data/basename", "a/../../b", StatusCode::kCorrupt,
       "no name, or a name outside its folder"},
      {"/raw_data/basename", "/etc/passwd", StatusCode::kCorrupt,
       "no name, or a name outside its folder"},
      {"/raw_data/basename", "", StatusCode::kCorrupt, "no name, or a name outside its folder"},
      {"/raw_data/bytes", "5", StatusCode::kCorrupt, "'shard.00000.mds' has no size"},
      {"/raw_data/hashes/sha1", 5, StatusCode::kCorrupt, "its hash 'sha1' is not text"},
      {"/raw_data/hashes/crc7", "00", StatusCode::kUnimplemented,
       "hash 'crc7' is not one that ffdl"},
      {"/zip_data", 5, StatusCode::kCorrupt, "no name"},
      {"/column_sizes", Json::array({8}), StatusCode::kCorrupt, "does not name its columns"},
      {"/column_sizes/0", -8, StatusCode::kCorrupt, "its column 0 has no valid name"},
      {"/column_names/1", 5, StatusCode::kCorrupt, "its column 1 has no valid name"},
      {"/column_names", nullptr, StatusCode::kCorrupt, "does not name its columns"},
  };
  for (const auto& [at, value, code, problem] : cases) {
    Json shard = shard_json();
    shard[Json::json_pointer(at)] = value;
    EXPECT_FAILS(parse_mds_index(mds_index({shard})), code, problem);
  }
  for (const char* text : {"", "{", "[]", "null", "{\"shards\": {}}", "{\"chunks\": []}"}) {
    EXPECT_FAILS(parse_mds_index(text), StatusCode::kCorrupt, "it is not an index of MDS");
  }
}

TEST(MdsIndex, KnowsSomeCompressions) {
  for (const auto& [name, code] : {std::pair("br:11", StatusCode::kUnimplemented),
                                   std::pair("snappy", StatusCode::kUnimplemented)}) {
    Json shard = shard_json();
    shard["zip_data"] = mds_file("packed", "less", {});
    EXPECT_FAILS(parse_mds_index(mds_index({shard})), StatusCode::kCorrupt,
                 "does not name its compression");
    shard["compression"] = name;
    EXPECT_FAILS(parse_mds_index(mds_index({shard})), code, name);
  }
}

TEST(MdsIndex, NamesTheShardAndTheColumnsThatAreOthers) {
  Json other = mds_shard(3, mds_file("shard.00001.mds", "bytes", {}));
  other["column_encodings"][0] = "int32";
  EXPECT_FAILS(parse_mds_index(mds_index({shard_json(), other})), StatusCode::kInvalidArgument,
               "the columns of 'shard.00001.mds' are (label: int32, text: str) and those of the "
               "first shard (label: int, text: str)");
}

TEST(LitdataIndex, TellsOfChunksAndColumns) {
  Json config = litdata_config();
  config["compression"] = "zstd:4";
  ASSERT_OK_AND_ASSIGN(
      const ShardIndex index,
      parse_litdata_index(litdata_index(config, {litdata_chunk("chunk-0-0.zstd:4.bin", 7, 99)})));
  ASSERT_EQ(index.shards.size(), 1U);
  EXPECT_EQ(index.shards[0].packed.name, "chunk-0-0.zstd:4.bin");
  EXPECT_EQ(index.shards[0].plain.name, "chunk-0-0.bin");
  EXPECT_EQ(index.shards[0].packing, Packing::kZstd);
  EXPECT_EQ(index.shards[0].samples, 7U);
  EXPECT_EQ(index.shards[0].bytes, 99U);
  ASSERT_EQ(index.columns.size(), 2U);
  EXPECT_EQ(index.columns[0].name, "label");
  EXPECT_EQ(index.columns[1].name, "image");
  EXPECT_EQ(index.columns[1].encoding, "bytes");
}

TEST(LitdataIndex, CountsTheFieldsOfWhatIsNoFlatDictionary) {
  for (const Json& spec :
       {Json(nullptr), Json("["), Json("[1, {\"type\": \"builtins.tuple\", \"context\": \"[]\"}]"),
        Json("[1, {\"type\": \"builtins.dict\", \"context\": \"[1, 2]\"}]"),
        Json("[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"a\\\"]\"}]"), Json("5")}) {
    Json config = litdata_config();
    config["data_spec"] = spec;
    ASSERT_OK_AND_ASSIGN(const ShardIndex index, parse_litdata_index(litdata_index(config, {})));
    EXPECT_EQ(index.columns.at(0).name, "0") << spec;
    EXPECT_EQ(index.columns.at(1).name, "1") << spec;
  }
}

TEST(LitdataIndex, RefusesWhatIsNone) {
  const struct {
    const char* at;  // a pointer into the index
    Json value;
    StatusCode code;
    const char* problem;
  } cases[] = {
      {"/config/encryption", {{"algorithm", "fernet"}}, StatusCode::kUnimplemented, "encrypted"},
      {"/config/compression_level", "batch", StatusCode::kUnimplemented, "within its chunks"},
      {"/config/item_loader", "TokensLoader", StatusCode::kUnimplemented, "open_tokens()"},
      {"/config/format", "mds", StatusCode::kUnimplemented, "open_mds()"},
      {"/config/compression", "lzma", StatusCode::kUnimplemented, "compression 'lzma'"},
      {"/config/data_format", nullptr, StatusCode::kCorrupt, "data_format"},
      {"/config/data_format/0", 5, StatusCode::kCorrupt, "its data_format 0 is not text"},
      {"/config", nullptr, StatusCode::kCorrupt, "data_format"},
      {"/chunks", nullptr, StatusCode::kCorrupt, "it is not an index of LitData"},
      {"/chunks/0/filename", "../x", StatusCode::kCorrupt, "no name, or a name outside its folder"},
      {"/chunks/0/chunk_size", -1, StatusCode::kCorrupt, "'chunk-0-0.bin' has no size"},
      {"/chunks/0/chunk_bytes", 1.5, StatusCode::kCorrupt, "'chunk-0-0.bin' has no size"},
      {"/chunks/0", 5, StatusCode::kCorrupt, "no name"},
  };
  for (const auto& [at, value, code, problem] : cases) {
    Json index =
        Json::parse(litdata_index(litdata_config(), {litdata_chunk("chunk-0-0.bin", 7, 99)}));
    index[Json::json_pointer(at)] = value;
    EXPECT_FAILS(parse_litdata_index(index.dump()), code, problem);
  }
}

TEST(ShardIndex, SeesWhichItIs) {
  EXPECT_OK(parse_shard_index(mds_index({shard_json()})).status());
  EXPECT_OK(parse_shard_index(litdata_index(litdata_config(), {})).status());
  EXPECT_FAILS(parse_shard_index("{}"), StatusCode::kCorrupt, "not an index of MDS or LitData");
}

}  // namespace
}  // namespace ffdl::data
