#include "base/own_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/errors.h"
#include "base/held_signal.h"
#include "base/own_path.h"
#include "base/resource_limit.h"

namespace ffdl::base {
namespace {

// The folder of a file, and the file's name in it.
struct Place {
  std::string folder;
  std::string name;
};

// Removes slashes at the end of a path: with one, open(2) would follow a link.
std::string trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Place place_of(const std::string& path) {
  const std::filesystem::path whole(path);
  std::string folder = whole.parent_path().string();
  if (folder.empty()) folder = ".";
  return {std::move(folder), whole.filename().string()};
}

Status failed(std::string_view doing, const std::string& path, int error) {
  return system_failure(fmt::format("{} '{}'", doing, path), error,
                        "does its folder exist, and is it writable",
                        error == ENOENT ? StatusCode::kNotFound : StatusCode::kUnavailable);
}

Status check_owner(const struct stat& found, std::string_view what, const std::string& path) {
  if (found.st_uid == ::geteuid()) return {};
  return invalid_argument(
      "use the {} '{}': it belongs to user {} and this process runs as user {}; that user could "
      "read or change the job's data in it; name one that belongs to you, or remove it",
      what, path, found.st_uid, ::geteuid());
}

Status check_shared_owner(const struct stat& found, std::string_view what,
                          const std::string& path) {
  return found.st_uid == 0 ? Status() : check_owner(found, what, path);
}

Status check_folder(int fd, const std::string& path) {
  struct stat found = {};
  if (::fstat(fd, &found) != 0) return failed("use the folder", path, errno);
  FFDL_RETURN_IF_ERROR(check_owner(found, "folder", path));
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  return invalid_argument(
      "use the folder '{}': its mode {:04o} lets other users write to it; remove that right "
      "('chmod go-w'), or name a new folder below it",
      path, found.st_mode & 07777);
}

Status check_file(int fd, const std::string& path) {
  struct stat found = {};
  if (::fstat(fd, &found) != 0) return failed("use the file", path, errno);
  if (!S_ISREG(found.st_mode)) {
    return invalid_argument("use the file '{}': it is not a regular file; remove it", path);
  }
  return check_owner(found, "file", path);
}

Status check_log_file(int fd, const std::string& path) {
  struct stat found = {};
  if (::fstat(fd, &found) != 0) return failed("use the file", path, errno);
  if (S_ISCHR(found.st_mode)) return check_shared_owner(found, "device", path);
  FFDL_RETURN_IF_ERROR(check_file(fd, path));
  if (found.st_nlink == 1) return {};
  return invalid_argument(
      "use the file '{}': it has {} hard links, and could be a file of another program; remove "
      "this one, or name another",
      path, found.st_nlink);
}

bool is_link(int folder, const std::string& name) {
  struct stat found = {};
  return ::fstatat(folder, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(found.st_mode);
}

Status refused_link(std::string_view what, const std::string& path) {
  return invalid_argument(
      "use the {} '{}': it is a symbolic link, which could lead to a file of another program; name "
      "the {} itself, or remove the link",
      what, path, what);
}

// Creates the folder and its parents if they are absent. Returns errno, or 0 on success.
int make_folders(const std::string& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) == 0) return S_ISDIR(found.st_mode) ? 0 : ENOTDIR;
  if (errno != ENOENT) return errno;
  if (const int error = make_folders(place_of(path).folder); error != 0) return error;
  return ::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST ? 0 : errno;
}

// Creates a new file in place of a remainder that a killed process left.
OwnFd make_file(int folder, const std::string& name) {
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  OwnFd file(::openat(folder, name.c_str(), kFlags, 0600));
  if (file.get() >= 0 || errno != EEXIST) return file;
  if (::unlinkat(folder, name.c_str(), 0) != 0) return file;
  return OwnFd(::openat(folder, name.c_str(), kFlags, 0600));
}

}  // namespace

OwnFd::~OwnFd() {
  if (fd_ < 0) return;
  const int error = errno;
  ::close(fd_);
  errno = error;
}

Result<OwnFd> make_own_folder(const std::string& given) {
  const std::string path = trimmed(given);
  FFDL_RETURN_IF_ERROR(check_parents(path));
  const int error = make_folders(place_of(path).folder);
  if (error != 0) return failed("make the folder", path, error);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return failed("make the folder", path, errno);
  }
  return open_own_folder(path);
}

Result<OwnFd> open_own_folder(const std::string& given) {
  const std::string path = trimmed(given);
  FFDL_RETURN_IF_ERROR(check_parents(path));
  OwnFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) {
    const int error = errno;
    if (is_link(AT_FDCWD, path)) return refused_link("folder", path);
    return failed("use the folder", path, error);
  }
  FFDL_RETURN_IF_ERROR(check_folder(folder.get(), path));
  return folder;
}

Result<OwnFd> open_own_file(const std::string& path, int flags) {
  const Place place = place_of(path);
  FFDL_ASSIGN_OR_RETURN(const OwnFd folder, open_own_folder(place.folder));
  // O_NONBLOCK: opening a pipe in this place must not block the caller.
  const int safe = flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  OwnFd file(::openat(folder.get(), place.name.c_str(), safe, 0600));
  if (file.get() < 0) {
    const int error = errno;
    if (is_link(folder.get(), place.name)) return refused_link("file", path);
    return failed("use the file", path, error);
  }
  FFDL_RETURN_IF_ERROR(check_file(file.get(), path));
  return file;
}

Result<OwnFd> open_log_file(const std::string& path) {
  FFDL_RETURN_IF_ERROR(check_parents(path));
  const Place place = place_of(path);
  const OwnFd folder(::open(place.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return failed("use the folder", place.folder, errno);
  // O_NONBLOCK: opening a pipe in this place must not block the caller.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  OwnFd file(::openat(folder.get(), place.name.c_str(), kFlags, 0644));
  if (file.get() < 0) {
    const int error = errno;
    if (is_link(folder.get(), place.name)) return refused_link("file", path);
    return failed("use the file", path, error);
  }
  FFDL_RETURN_IF_ERROR(check_log_file(file.get(), path));
  if (::fcntl(file.get(), F_SETFL, O_APPEND) != 0) return failed("use the file", path, errno);
  return file;
}

Result<std::string> read_own_file(const std::string& path) {
  FFDL_ASSIGN_OR_RETURN(const OwnFd file, open_own_file(path, O_RDONLY));
  std::string text;
  char piece[16384];
  while (true) {
    const ssize_t got = ::read(file.get(), piece, sizeof piece);
    if (got == 0) return text;
    if (got > 0) text.append(piece, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) return failed("read the file", path, errno);
  }
}

int write_all(int fd, std::string_view bytes) {
  const HeldSignal file_size_signal(SIGXFSZ);
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return 0;
}

Status replace_own_file(const std::string& path, std::string_view bytes) {
  OwnFd placed;
  return replace_own_file(path, bytes, placed);
}

Status replace_own_file(const std::string& path, std::string_view bytes, OwnFd& placed) {
  const Place place = place_of(path);
  FFDL_ASSIGN_OR_RETURN(const OwnFd folder, open_own_folder(place.folder));
  const std::string fresh = place.name + ".new";
  OwnFd file = make_file(folder.get(), fresh);
  if (file.get() < 0) return failed("write the file", path, errno);
  int error = write_all(file.get(), bytes);
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (error == 0 &&
      ::renameat(folder.get(), fresh.c_str(), folder.get(), place.name.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    ::unlinkat(folder.get(), fresh.c_str(), 0);  // its bytes would keep a full disk full
    return failed("replace the file", path, error);
  }
  placed = std::move(file);
  if (::fsync(folder.get()) != 0) return failed("replace the file", path, errno);
  return {};
}

}  // namespace ffdl::base
