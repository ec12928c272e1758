#pragma once

#include <string_view>

#include "ps/layout.h"

namespace ffdl::ps {

// Opens a server's segment, waiting for its name to appear until the deadline (kTimeout then).
Result<shm::Segment> open_waiting(std::string_view name, Time deadline);

// kInvalidArgument unless a buffer of `count` floats holds all weights.
Status check_pull_size(const Region& region, uint64_t count);

}  // namespace ffdl::ps
