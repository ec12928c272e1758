#include "net/unproved_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/limits.h"

namespace ffdl::net {

size_t unproved_max() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return base::kUnprovedMax;
  }
  return std::clamp<size_t>(limit.rlim_cur / 4, base::kUnprovedMin, base::kUnprovedMax);
}

}  // namespace ffdl::net
