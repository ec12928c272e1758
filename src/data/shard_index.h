#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/digest.h"
#include "data/packing.h"
#include "ffdl/shard_folder.h"
#include "ffdl/status.h"

namespace ffdl::data {

// A file of a shard, as an index tells of it.
struct ShardFile {
  std::string name{};  // below the folder of the index; none: there is no such file
  std::vector<Digest> digests{};
};

struct Shard {
  ShardFile plain{};
  ShardFile packed{};  // the same, compressed
  Packing packing = Packing::kNone;
  uint64_t bytes = 0;  // not compressed
  uint64_t samples = 0;
};

struct ShardIndex {
  std::vector<ShardColumn> columns{};
  std::vector<Shard> shards{};
};

// The index.json of MDS, of LitData, and of whichever it is. Pure.
// Errors, without the name of the file: kCorrupt, kInvalidArgument (columns differ),
//         kUnimplemented.
Result<ShardIndex> parse_mds_index(std::string_view text);
Result<ShardIndex> parse_litdata_index(std::string_view text);
Result<ShardIndex> parse_shard_index(std::string_view text);

}  // namespace ffdl::data
