#include "benchmarks/harness/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ffdl::bench {

using namespace std::chrono_literals;

Progress::Progress(std::string title)
    : title_(std::move(title)), terminal_(isatty(STDERR_FILENO) == 1), next_(Clock::now() + 1s) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::show(double share) {
  if (!terminal_ || Clock::now() < next_) return;
  constexpr int kWidth = 30;
  const int full = std::clamp(static_cast<int>(share * kWidth), 0, kWidth);
  fmt::print(stderr, "\r\033[K{} [{:=<{}}{:<{}}] {:3.0f} %", title_, "", full, "", kWidth - full,
             share * 100);
  std::fflush(stderr);
  drawn_ = true;
  next_ = Clock::now() + 200ms;
}

}  // namespace ffdl::bench
