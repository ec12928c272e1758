#pragma once

#include <sys/file.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "ffdl/status.h"

// Files that hold a store. Errors of all: kUnavailable.
namespace ffdl::store {

// Closes it, and drops its lock, also where a forked child still has a copy of the descriptor.
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

// "<doing> '<path>': <errno's text>; ...".
Status cannot_use(std::string_view doing, const std::string& path);

// Makes it if it is absent.
Status make_folder(const std::string& path);

// The whole file; empty when there is none.
Result<std::string> read_file(const std::string& path);

// All of `bytes`, after what the descriptor's file has. Returns errno, 0 when all is well.
int write_all(int fd, std::string_view bytes);

// Puts `bytes` in the place of the file: whoever is killed meanwhile leaves the old one or the new
// one. On the disk when it returns.
Status replace_file(const std::string& path, std::string_view bytes);

}  // namespace ffdl::store
