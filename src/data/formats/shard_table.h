#pragma once

#include <cstdint>

#include "data/formats/file_source.h"
#include "data/formats/input_file.h"
#include "ffdl/status.h"

namespace ffdl::data {

// The contents of a shard, from an index.
struct ShardContents {
  uint64_t bytes = 0;
  uint64_t samples = 0;
};

// Finds the samples in a shard of MDS or LitData. It has the number of samples, then one more
// offset than samples. All are little-endian, with 32 bits. Any bytes may follow before the
// samples. Errors: kCorrupt, also if the shard differs from the index.
Result<SampleTable> find_shard_samples(FileScanner& file, const ShardContents& said);

}  // namespace ffdl::data
