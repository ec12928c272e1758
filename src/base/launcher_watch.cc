#include "base/launcher_watch.h"

#include <chrono>
#include <ctime>
#include <memory>

#include "base/env.h"
#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::base {
namespace {

// Returns the time in nanoseconds, to some milliseconds. Reads no counter of the processor, so it
// costs less than the precise time.
int64_t coarse_time() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

LauncherWatch::LauncherWatch(const std::map<std::string, std::string>& variables) {
  const auto mark = variables.find("FFDL_LAUNCHER");
  if (mark == variables.end()) return;
  mark_ = mark->second;
  launcher_ = ProcessWatch::of(mark_);
}

bool LauncherWatch::has_ended() const {
  if (mark_.empty()) return false;
  if (has_ended_.load(std::memory_order_relaxed)) return true;
  const int64_t now = coarse_time();
  int64_t next = next_.load(std::memory_order_relaxed);
  if (now < next) return false;
  const int64_t later = now + std::chrono::nanoseconds(kLauncherInterval).count();
  // Another thread that is first asks for all.
  if (!next_.compare_exchange_strong(next, later, std::memory_order_relaxed)) return false;
  return has_ended_now();
}

bool LauncherWatch::has_ended_now() const {
  if (mark_.empty()) return false;
  if (has_ended_.load(std::memory_order_relaxed)) return true;
  if (!ask()) return false;
  has_ended_.store(true, std::memory_order_relaxed);
  return true;
}

// Opens the launcher for this question alone in a fork, whose copy of the descriptor is closed.
bool LauncherWatch::ask() const {
  if (launcher_ && launcher_->can_tell()) return launcher_->is_gone();
  return has_process_ended(mark_);
}

Status LauncherWatch::ended(const std::string& object) const {
  return make_error(StatusCode::kCancelled,
                    "{}: its launcher, 'ffdl run' with process id {}, has ended, but this process "
                    "still runs; end this process, and run the job again",
                    object, mark_.substr(0, mark_.find(':')));
}

const LauncherWatch& launcher_watch() {
  static const LauncherWatch* const watch =
      std::make_unique<LauncherWatch>(environment().launcher).release();
  return *watch;
}

}  // namespace ffdl::base
