#pragma once

#include <string_view>

#include "ps/segment/layout.h"

namespace ffdl::ps {

// Opens a server's segment. Waits for its name to appear until the deadline (kTimeout then).
Result<shm::Segment> open_waiting(std::string_view name, Time deadline);

// Returns kInvalidArgument unless a buffer of `count` floats has room for all weights.
Status check_pull_size(const Region& region, uint64_t count);

}  // namespace ffdl::ps
