#include "ps/segment/open_waiting.h"

#include <thread>

#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"

namespace ffdl::ps {

Result<shm::Segment> open_waiting(std::string_view name, Time deadline) {
  while (true) {
    FFDL_RETURN_IF_ERROR(base::launcher_watch().check("open parameter server '{}'", name));
    Result<shm::Segment> opened = open_segment(name);
    if (opened.ok() || opened.status().code() != StatusCode::kNotFound) return opened;
    if (std::chrono::steady_clock::now() >= deadline) {
      return base::make_error(
          StatusCode::kTimeout,
          "open parameter server '{}': it does not exist; start its server, or check the name",
          name);
    }
    std::this_thread::sleep_for(base::kPollInterval);
  }
}

Status check_pull_size(const Region& region, uint64_t count) {
  if (count == region.config().parameters) return {};
  return base::invalid_argument("pull weights: the buffer holds {} floats; give one of {}", count,
                                region.config().parameters);
}

}  // namespace ffdl::ps
