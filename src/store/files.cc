#include "store/files.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>

#include "base/errors.h"

namespace ffdl::store {
namespace {

// On the disk when it returns.
Status write_file(const std::string& path, std::string_view bytes) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) return cannot_use("write store file", path);
  errno = write_all(file.get(), bytes);
  if (errno != 0 || ::fsync(file.get()) != 0) return cannot_use("write store file", path);
  return {};
}

}  // namespace

Status cannot_use(std::string_view doing, const std::string& path) {
  return base::make_error(StatusCode::kUnavailable,
                          "{} '{}': {}; is its folder there, and writable", doing, path,
                          base::errno_text(errno));
}

Status make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return {};
  return base::make_error(StatusCode::kUnavailable,
                          "make the folder '{}': {}; name one that is there or can be made", path,
                          error.message());
}

Result<std::string> read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return std::string();
  if (file.get() < 0) return cannot_use("read store file", path);
  std::string text;
  char piece[16384];
  while (true) {
    const ssize_t got = ::read(file.get(), piece, sizeof piece);
    if (got == 0) return text;
    if (got > 0) text.append(piece, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) return cannot_use("read store file", path);
  }
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return 0;
}

Status replace_file(const std::string& path, std::string_view bytes) {
  const std::string fresh = path + ".new";
  FFDL_RETURN_IF_ERROR(write_file(fresh, bytes));
  if (::rename(fresh.c_str(), path.c_str()) != 0) return cannot_use("replace store file", path);
  const std::string folder_path = std::filesystem::path(path).parent_path();
  const Descriptor folder(::open(folder_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || ::fsync(folder.get()) != 0) {
    return cannot_use("replace store file", path);
  }
  return {};
}

}  // namespace ffdl::store
