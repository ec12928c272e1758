#include "data/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

using base::make_error;

Status cannot_open(const std::string& path, int error) {
  if (error == ENOENT) {
    return make_error(StatusCode::kNotFound, "open data file '{}': there is none; check the path",
                      path);
  }
  if (error == EMFILE || error == ENFILE) {
    return make_error(StatusCode::kExhausted,
                      "open data file '{}': {}; raise the limit (ulimit -n), or make fewer and "
                      "larger files",
                      path, base::errno_text(error));
  }
  return make_error(StatusCode::kUnavailable, "open data file '{}': {}; check that it can be read",
                    path, base::errno_text(error));
}

Status cut_short(const std::string& path, uint64_t size, uint64_t opened) {
  return make_error(StatusCode::kCorrupt,
                    "read data file '{}': it ends at byte {} and had {} bytes when it was opened; "
                    "leave the files of a data set alone while they are in use",
                    path, size, opened);
}

}  // namespace

Result<std::unique_ptr<InputFile>> InputFile::open(const std::string& path) {
  // Opening a pipe would wait for its writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return cannot_open(path, errno);
  auto file = std::unique_ptr<InputFile>(new InputFile(path, fd));
  struct stat status{};
  if (::fstat(fd, &status) != 0) return cannot_open(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return base::invalid_argument("open data file '{}': it is no regular file; name one", path);
  }
  file->size_ = static_cast<uint64_t>(status.st_size);
  return file;
}

InputFile::~InputFile() {
  if (map_ != nullptr) ::munmap(const_cast<std::byte*>(map_), size_);
  ::close(fd_);
}

Status InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return make_error(StatusCode::kUnavailable,
                        "read {} bytes at byte {} of data file '{}': {}; check the disk", to.size(),
                        offset, path_, base::errno_text(errno));
    }
    if (got == 0) return cut_short(path_, offset, size_);
    offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
  return {};
}

Status InputFile::map() {
  if (size_ == 0) return {};
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
  if (map == MAP_FAILED) {
    return make_error(StatusCode::kUnavailable,
                      "map data file '{}': {}; open it with FileAccess::kCopied", path_,
                      base::errno_text(errno));
  }
  map_ = static_cast<const std::byte*>(map);
  return {};
}

Status InputFile::check_size() const {
  struct stat status{};
  if (::fstat(fd_, &status) != 0) return cannot_open(path_, errno);
  const auto size = static_cast<uint64_t>(status.st_size);
  return size < size_ ? cut_short(path_, size, size_) : Status();
}

void InputFile::populate(uint64_t offset, uint64_t bytes) const {
  constexpr uint64_t kPage = 4096;  // where pages are larger this is refused
  const uint64_t begin = offset / kPage * kPage;
  // What fails here is found by whoever reads: this only saves the wait.
  static_cast<void>(
      ::madvise(const_cast<std::byte*>(map_ + begin), offset + bytes - begin, MADV_POPULATE_READ));
}

Result<std::span<const std::byte>> FileScanner::at(uint64_t offset, size_t bytes) {
  const uint64_t end = begin_ + piece_.size();
  if (offset >= file_.size()) return std::span<const std::byte>();
  if (offset + bytes > end && end < file_.size()) {
    // Who leaps over what it does not need is spared reading it.
    const size_t piece = offset <= end ? base::kScanBytes : base::kScanLeapBytes;
    piece_.resize(std::min<uint64_t>(std::max(piece, bytes), file_.size() - offset));
    begin_ = offset;
    FFDL_RETURN_IF_ERROR(file_.read(offset, piece_));
  }
  const std::span<const std::byte> rest =
      std::span<const std::byte>(piece_).subspan(static_cast<size_t>(offset - begin_));
  return rest.first(std::min(bytes, rest.size()));
}

}  // namespace ffdl::data
