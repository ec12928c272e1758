#pragma once

#include <sys/file.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/own_files.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// Handles the files of a store. Errors of all: those of base/own_files.h except kNotFound.
namespace ffdl::store {

// Closes a descriptor, and drops its lock even if a forked child still has a copy.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ < 0) return;
    ::flock(fd_, LOCK_UN);
    ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// Returns "<doing> '<path>': <errno's text>; ...".
Status cannot_use(std::string_view doing, const std::string& path);

// Returns the name of this boot of the machine. It identifies a clock that counts from the boot.
Result<std::string> read_boot_id();

// Returns how far this process's monotonic clock is ahead of the machine's, in its time namespace.
// Errors: kInvalidArgument (only the children of this process are in its time namespace).
Result<Duration> read_clock_offset();

// Applies base/own_files.h to the files of a store's folder. A missing folder is kUnavailable here,
// as kNotFound answers for a key.
Result<base::OwnFd> open_file(const std::string& path, int flags);
Result<std::string> read_file(const std::string& path);  // empty if there is no file
Status replace_file(const std::string& path, std::string_view bytes);
Status replace_file(const std::string& path, std::string_view bytes, base::OwnFd& placed);

using base::write_all;

}  // namespace ffdl::store
