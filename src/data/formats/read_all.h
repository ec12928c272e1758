#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ffdl/data/data_source.h"
#include "ffdl/status.h"

namespace ffdl::data {

// Reads into a batch that was cleared. Errors: those of the source, kInvalidArgument (the source
// returned fewer or more samples than requested).
Status read_all(const DataSource& source, std::span<const uint64_t> indices, SampleBatch& batch);

// Checks that samples of `bytes` fit memory of `room` bytes. Errors: kInvalidArgument.
Status check_room(size_t samples, uint64_t bytes, size_t room);

}  // namespace ffdl::data
