#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ffdl/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// Reads into a batch that was cleared. Errors: also kInvalidArgument (the source gave fewer or more
// than it was asked for).
Status read_all(const DataSource& source, std::span<const uint64_t> indices, SampleBatch& batch);

// Errors: kInvalidArgument (samples that have so many bytes are to lie in memory that has fewer).
Status check_room(size_t samples, uint64_t bytes, size_t room);

}  // namespace ffdl::data
