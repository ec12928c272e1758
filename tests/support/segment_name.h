#pragma once

#include <unistd.h>

#include <atomic>
#include <string>

namespace ffdl::testing {

// A segment name that no other test has. The segment is removed at the end in any case.
class SegmentName {
 public:
  SegmentName() : text_("test-" + std::to_string(getpid()) + "-" + std::to_string(next())) {}
  ~SegmentName() { unlink(path().c_str()); }
  SegmentName(const SegmentName&) = delete;
  SegmentName& operator=(const SegmentName&) = delete;

  const std::string& text() const { return text_; }
  operator std::string() const { return text_; }  // NOLINT: it stands for its text
  std::string path() const { return "/dev/shm/ffdl." + text_; }
  bool exists() const { return access(path().c_str(), F_OK) == 0; }

 private:
  static int next() {
    static std::atomic<int> count = 0;
    return ++count;
  }
  std::string text_;
};

}  // namespace ffdl::testing
