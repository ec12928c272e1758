#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/digest.h"
#include "data/formats/packing.h"
#include "ffdl/data/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// A file of a shard, as described by an index.
struct ShardFile {
  std::string name{};  // path below the folder of the index; empty: there is no such file
  std::vector<Digest> digests{};
};

struct Shard {
  ShardFile plain{};
  ShardFile packed{};  // the compressed form
  Packing packing = Packing::kNone;
  uint64_t bytes = 0;  // uncompressed
  uint64_t samples = 0;
};

struct ShardIndex {
  std::vector<ShardColumn> columns{};
  std::vector<Shard> shards{};
};

// Parses the index.json of MDS, of LitData, and of either. Pure.
// Errors, without the name of the file: kCorrupt, kInvalidArgument (columns differ),
//         kUnimplemented.
Result<ShardIndex> parse_mds_index(std::string_view text);
Result<ShardIndex> parse_litdata_index(std::string_view text);
Result<ShardIndex> parse_shard_index(std::string_view text);

}  // namespace ffdl::data
