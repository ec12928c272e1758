#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ffdl/types.h"

namespace ffdl::elastic {

// Selects the blocks of 1,024 elements to read. One of each `stride` consecutive blocks of a buffer
// is drawn by `round`, and its value counts for all of them. The estimate has the right mean,
// however much blocks differ. Buffers of up to 64 blocks are read whole.
struct BlockSample {
  uint64_t stride = 1;  // 1: all
  uint64_t round = 0;
};

// The number of blocks to read of a buffer, each one out of `stride`.
struct BlockPicks {
  uint64_t blocks = 0;  // in the buffer
  uint64_t stride = 1;
  uint64_t count = 0;
};
BlockPicks picks_of(const Buffer& buffer, BlockSample sample);

// Returns the sum of the squares of all elements, of any floating dtypes, at any address. The order
// depends on the sizes alone. So equal bytes have equal norms wherever this code computes them.
double squared_norm(std::span<const Buffer> buffers, BlockSample sample = {});
// Returns the sum of the squared differences to `other`, which has the shape of `buffers`.
double squared_distance(std::span<const Buffer> buffers, std::span<const Buffer> other,
                        BlockSample sample = {});

}  // namespace ffdl::elastic
