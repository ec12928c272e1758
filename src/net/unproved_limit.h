#pragma once

#include <cstddef>

namespace ffdl::net {

// Returns how many connections to one port may be open without a proof: base::kUnprovedMin to
// base::kUnprovedMax. Between those it is a quarter of the descriptors that this process may have
// (RLIMIT_NOFILE), so that no outsider can take them all. Reads the limit each time, as a process
// may change it.
size_t unproved_max();

}  // namespace ffdl::net
