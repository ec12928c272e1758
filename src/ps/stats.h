#pragma once

#include "ps/layout.h"

namespace ffdl::ps {

// Everything that a segment tells about itself. `fd`: any descriptor of it.
ParameterServerStats read_stats(const Region& region, int fd);

PartitionProgress read_partition(const Region& region, uint32_t partition);

}  // namespace ffdl::ps
