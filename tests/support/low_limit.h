#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace ffdl::testing {

// Lowers a limit of this process while it lives.
class LowLimit {
 public:
  LowLimit(decltype(RLIMIT_NOFILE) resource, rlim_t value) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit low{.rlim_cur = value, .rlim_max = before_.rlim_max};
    setrlimit(resource_, &low);
  }
  ~LowLimit() { setrlimit(resource_, &before_); }
  LowLimit(const LowLimit&) = delete;
  LowLimit& operator=(const LowLimit&) = delete;

 private:
  const decltype(RLIMIT_NOFILE) resource_;
  rlimit before_{};
};

// Returns the limit for LowLimit(RLIMIT_NOFILE, ...) at which no further descriptor can be opened.
inline rlim_t next_descriptor() {
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(next);
  return static_cast<rlim_t>(next);
}

}  // namespace ffdl::testing
