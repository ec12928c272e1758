#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ffdl/data_source.h"
#include "ffdl/export.h"
#include "ffdl/status.h"

namespace ffdl {

// Folders of shards with an index.json, as MosaicML Streaming (MDS) and LitData write them: an
// index tells how many samples each shard has, so that compressed ones are unpacked when one of
// their samples is asked for and not before.

// One column of the samples of such a folder.
struct ShardColumn {
  std::string name{};      // in LitData the key of a flat dictionary, or the place: "0", "1", ...
  std::string encoding{};  // of its bytes, in the words of the format: "int", "jpeg"
  uint64_t bytes = 0;      // of each sample; 0: the sample says
};

// The samples of one or more folders, in this order; shard_fields() takes one apart. Shards may be
// compressed with zstd, gzip or bzip2. Where both are there, the one that is not compressed is
// read.
// Errors: as open_tar_shards(); kInvalidArgument (columns of two shards differ), kUnimplemented
//         (encrypted, or packed in another way). read(): kCorrupt where a shard is not what the
//         index says: its size, samples and, with check_hashes, its hashes; with kSkip all of its
//         samples are left out then.
// Blocks: for the disk. A shard with hashes is read as a whole before its first sample is given.
FFDL_API OpenedSource open_mds(const Paths& folders, const FileOptions& options = {});
// Items of any structure (PyTreeLoader), compressed by whole chunks or not at all. What else newer
// versions of LitData write (tokens, Parquet, rows as Arrow, frames within chunks) is
// kUnimplemented and says so.
FFDL_API OpenedSource open_litdata(const Paths& folders, const FileOptions& options = {});

// Of a folder of either format, in the order of shard_fields().
// Errors: those of opening it.
FFDL_API Result<std::vector<ShardColumn>> shard_columns(const std::string& folder);

// The bytes of each column of a sample, where they lie in it.
// Errors: kCorrupt.
FFDL_API Result<std::vector<std::span<const std::byte>>> shard_fields(
    std::span<const std::byte> sample, std::span<const ShardColumn> columns);

}  // namespace ffdl
