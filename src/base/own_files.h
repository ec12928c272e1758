#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "ffdl/status.h"

// Opens folders and files that no other user can have made, replaced or changed. Such a folder
// belongs to the effective user of this process, and only that user may write to it. No other user
// may be able to replace a folder on its path (own_path.h). Each function opens the file's folder
// without following a link, checks the open descriptor, and opens the file relative to it. A folder
// that another user has placed there is refused.
//
// Errors of all: kInvalidArgument (the folder or the file is a link, of another kind or of another
// user, or others may write to it or replace a folder on the way to it), kExhausted (the disk is
// full, or no descriptor is left), kUnavailable (the system refuses for another reason).
namespace ffdl::base {

// Owns an open descriptor.
class OwnFd {
 public:
  OwnFd() = default;
  explicit OwnFd(int fd) : fd_(fd) {}
  ~OwnFd();
  OwnFd(OwnFd&& other) noexcept : fd_(other.release()) {}
  OwnFd& operator=(OwnFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Creates the folder with mode 0700 if it is absent, and its parents with 0755, minus the umask.
// Opens it as open_own_folder() does.
Result<OwnFd> make_own_folder(const std::string& path);

// Opens an existing folder. Further errors: kNotFound.
Result<OwnFd> open_own_folder(const std::string& path);

// Opens a regular file of a folder. `flags` are those of open(2). O_NOFOLLOW and O_CLOEXEC are
// added. A new file has mode 0600. Further errors: kNotFound.
Result<OwnFd> open_own_file(const std::string& path, int flags);

// Opens a file for appending, and creates it with the mode that the umask leaves. Other users may
// use its folder too, as check_parents() allows (own_path.h). The file itself must not be a link.
// It must be a regular file of this user with one name, or a device such as /dev/null. Further
// errors: kNotFound.
Result<OwnFd> open_log_file(const std::string& path);

// Returns all bytes of the file. Further errors: kNotFound.
Result<std::string> read_own_file(const std::string& path);

// Replaces the file by a new one with mode 0600. A process that is killed meanwhile leaves the old
// file or the new one. The new file is on the disk when this returns. Callers that replace the same
// file at the same time must exclude each other.
Status replace_own_file(const std::string& path, std::string_view bytes);

// Replaces the file and stores the new one in `placed`, open for reading and appending. `placed` is
// set as soon as the new file has replaced the old one, even if an error follows. Otherwise
// `placed` is unchanged.
Status replace_own_file(const std::string& path, std::string_view bytes, OwnFd& placed);

// Writes all of `bytes` to the descriptor. Returns errno, or 0 on success. Above RLIMIT_FSIZE it
// returns EFBIG, without the signal.
int write_all(int fd, std::string_view bytes);

}  // namespace ffdl::base
