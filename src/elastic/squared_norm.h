#pragma once

#include <cstddef>
#include <span>

#include "ffdl/types.h"

namespace ffdl::elastic {

// The sum of the squares of all elements, of any floating dtypes, at any address. In an order that
// the sizes alone decide: equal bytes have equal norms, wherever they are computed by this code.
double squared_norm(std::span<const Buffer> buffers);
// Of the differences to `other`, which is as `buffers` are.
double squared_distance(std::span<const Buffer> buffers, std::span<const Buffer> other);

}  // namespace ffdl::elastic
