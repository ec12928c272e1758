#include "elastic/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

Manifest some() {
  Manifest manifest;
  manifest.label = {"my.job", 2, 7, 120, 0xfedcba9876543210};
  manifest.metric = 0.25;
  manifest.tensors = {{"w", DType::kBFloat16, 9}};
  manifest.shards = {{shard_name(0, 2), 500, 1}, {shard_name(1, 2), 400, ~uint64_t{0}}};
  return manifest;
}

TEST(Manifest, ItIsWrittenAndReadAgain) {
  EXPECT_EQ(parse_manifest(encode(some())).value(), some());
  Manifest odd = some();
  odd.metric = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(parse_manifest(encode(odd)).value().metric) << "JSON has no such number";
}

TEST(Manifest, WhatIsMissingIsNamed) {
  EXPECT_FAILS(parse_manifest("[]"), StatusCode::kCorrupt, "'a JSON object' is missing or wrong");
  const std::string text = encode(some());
  for (const char* key :
       {"format", "job", "lineage", "generation", "step", "history", "tensors", "shards"}) {
    std::string other = text;
    other.replace(other.find(std::string("\"") + key), 2, "\"x");
    EXPECT_FAILS(parse_manifest(other), StatusCode::kCorrupt, key);
  }
  const auto with = [&](std::string_view what, std::string_view instead) {
    std::string other = text;
    return other.replace(other.find(what), what.size(), instead);
  };
  EXPECT_FAILS(parse_manifest(with("bfloat16", "float99")), StatusCode::kCorrupt, "tensors");
  EXPECT_FAILS(parse_manifest(with("shard-00000-of-00002.safetensors", "../../passwd")),
               StatusCode::kCorrupt, "shards");
  EXPECT_FAILS(parse_manifest(with("0.25", "\"a\"")), StatusCode::kCorrupt, "metric");
  // The shards of another number of members, in another order, or other files of a checkpoint.
  for (const std::string& other : {shard_name(1, 2), shard_name(0, 3), shard_name(2, 3),
                                   shard_name(0, 2) + ".unfinished", manifest_name(1)}) {
    EXPECT_FAILS(parse_manifest(with(shard_name(0, 2), other)), StatusCode::kCorrupt, "shards");
  }
}

TEST(Manifest, AFolderHasTheLabelsName) {
  const CheckpointLabel label = some().label;
  EXPECT_EQ(folder_name(label), "my.job.000000000120.l2.g7.fedcba9876543210");
  EXPECT_EQ(parse_folder_name(folder_name(label)), label);
  for (const char* name :
       {"", "a", "000000000120.l2.g7.fedcba9876543210", ".000000000120.l2.g7.fedcba9876543210",
        "a.120.l2.g7.fedcba9876543210", "a.000000000120.l2.g7.fedcba987654321",
        "a.000000000120.l2.g7.x", "a.000000000120.l02.g7.fedcba9876543210",
        "a.000000000120.g2.l7.fedcba9876543210"}) {
    EXPECT_FALSE(parse_folder_name(name)) << name;
  }
}

TEST(Manifest, TheFilesOfACheckpointAreKnown) {
  EXPECT_EQ(parse_published_name(published_name(7, 9)), std::pair(uint64_t{7}, uint64_t{9}));
  for (const std::string& name :
       {shard_name(0, 3), shard_name(99999, 99999), manifest_name(3), published_name(1, 2),
        shard_name(1, 2) + ".unfinished", manifest_name(3) + ".unfinished",
        manifest_name(3) + ".00002.unfinished"}) {
    EXPECT_TRUE(is_checkpoint_file(name)) << name;
  }
  for (const char* name :
       {"", "notes.txt", "shard-0-of-1.safetensors", "shard-00000-of-00001", "manifest-.json",
        "manifest-1.json", "published-1-2", "model.safetensors",
        "shard-00000-of-00001.safetensors.bak",
        "published-000000000001-0000000000000002.unfinished",
        "manifest-0000000000000003.json.2.unfinished", "manifest-0000000000000003.json.00002"}) {
    EXPECT_FALSE(is_checkpoint_file(name)) << name;
  }
}

}  // namespace
}  // namespace ffdl::elastic
