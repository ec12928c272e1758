#pragma once

#include "ps/segment/layout.h"

namespace ffdl::ps {

// Returns all statistics of a segment. `fd`: any descriptor of it.
ParameterServerStats read_stats(const Region& region, int fd);

PartitionProgress read_partition(const Region& region, uint32_t partition);

}  // namespace ffdl::ps
