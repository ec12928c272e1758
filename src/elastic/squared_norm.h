#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ffdl/types.h"

namespace ffdl::elastic {

// Which blocks of 1,024 elements are read. Of each `stride` blocks of a buffer in a row it is one,
// drawn by `round`, and what it gives counts for all of them: the estimate has the right mean,
// however much blocks differ. Buffers of up to 64 blocks are read whole.
struct BlockSample {
  uint64_t stride = 1;  // 1: all
  uint64_t round = 0;
};

// How many blocks are read of a buffer, and of how many in a row each is one.
struct BlockPicks {
  uint64_t blocks = 0;  // that there are
  uint64_t stride = 1;
  uint64_t count = 0;
};
BlockPicks picks_of(const Buffer& buffer, BlockSample sample);

// The sum of the squares of all elements, of any floating dtypes, at any address. In an order that
// the sizes alone decide: equal bytes have equal norms, wherever they are computed by this code.
double squared_norm(std::span<const Buffer> buffers, BlockSample sample = {});
// Of the differences to `other`, which is as `buffers` are.
double squared_distance(std::span<const Buffer> buffers, std::span<const Buffer> other,
                        BlockSample sample = {});

}  // namespace ffdl::elastic
