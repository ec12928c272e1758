#include "base/check.h"

#include <cstdlib>

#include "base/log.h"

namespace ffdl::base {

void check_failed(const char* condition, const char* why, const char* file, int line) {
  log_error("broken invariant '{}' ({}) at {}:{}: this is a bug in ffdl; report it with the log",
            condition, why, file, line);
  std::abort();
}

}  // namespace ffdl::base
