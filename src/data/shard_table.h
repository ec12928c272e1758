#pragma once

#include <cstdint>

#include "data/file_source.h"
#include "data/input_file.h"
#include "ffdl/status.h"

namespace ffdl::data {

// What an index says of a shard.
struct ShardContents {
  uint64_t bytes = 0;
  uint64_t samples = 0;
};

// Where samples lie in a shard of MDS or LitData: the number of samples, as many offsets and one
// more, 32 bits each and little-endian; then anything, then the samples. Errors: kCorrupt, also
// where the index says otherwise.
Result<SampleTable> find_shard_samples(FileScanner& file, const ShardContents& said);

}  // namespace ffdl::data
