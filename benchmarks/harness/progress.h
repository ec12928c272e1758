#pragma once

#include <chrono>
#include <string>

namespace ffdl::bench {

// Shows a bar on standard error while an operation takes longer than a second. Shows nothing if
// standard error is not a terminal. The destructor removes the bar.
class Progress {
 public:
  explicit Progress(std::string title);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(double share);

 private:
  using Clock = std::chrono::steady_clock;
  std::string title_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point next_;
};

}  // namespace ffdl::bench
