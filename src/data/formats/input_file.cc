#include "data/formats/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/errors.h"
#include "base/limits.h"
#include "base/resource_limit.h"

namespace ffdl::data {
namespace {

using base::make_error;

Status cannot_open(const std::string& path, int error) {
  if (error == ENOENT) {
    return make_error(StatusCode::kNotFound, "open data file '{}': there is none; check the path",
                      path);
  }
  // An index may name any file. A name that no file can have is no fault of the machine.
  const StatusCode otherwise =
      error == ENAMETOOLONG ? StatusCode::kInvalidArgument : StatusCode::kUnavailable;
  return base::system_failure(fmt::format("open data file '{}'", path), error,
                              "check that it can be read", otherwise);
}

Status cut_short(const std::string& path, uint64_t size, uint64_t opened) {
  return make_error(StatusCode::kCorrupt,
                    "read data file '{}': it ends at byte {} and had {} bytes when it was opened; "
                    "leave the files of a data set alone while they are in use",
                    path, size, opened);
}

Status cannot_read(const std::string& path, uint64_t offset, int error) {
  return make_error(StatusCode::kUnavailable, "read data file '{}' at byte {}: {}; check the disk",
                    path, offset, base::errno_text(error));
}

constexpr uint64_t kPage = 4096;  // kernels with larger pages refuse the requests

// The bytes that the kernel is asked to read ahead of a copy in pieces. Smaller reads do not
// justify a call.
constexpr uint64_t kAskBytes = uint64_t{512} << 10;

void ask_for(int fd, uint64_t offset, uint64_t bytes) {
  if (bytes < kAskBytes) return;
  // A hint: the read works without it.
  static_cast<void>(::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                                    POSIX_FADV_WILLNEED));
}

// Reports whether all bytes are in memory. `begin` is the start of a page.
bool is_resident(const std::byte* begin, uint64_t bytes) {
  std::array<unsigned char, 512> pages;
  while (bytes > 0) {
    const uint64_t part = std::min(bytes, pages.size() * kPage);
    if (::mincore(const_cast<std::byte*>(begin), part, pages.data()) != 0) return false;
    const auto end = pages.begin() + static_cast<std::ptrdiff_t>((part + kPage - 1) / kPage);
    if (std::any_of(pages.begin(), end, [](unsigned char page) { return (page & 1) == 0; })) {
      return false;
    }
    begin += part;
    bytes -= part;
  }
  return true;
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
    return base::invalid_argument("open data file '{}': it is not a regular file; name one", path);
  }
  file->size_ = static_cast<uint64_t>(status.st_size);
  return file;
}

InputFile::~InputFile() {
  if (map_ != nullptr) ::munmap(const_cast<std::byte*>(map_), size_);
  ::close(fd_);
}

Status InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  ask_for(fd_, offset, to.size());
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path_, offset, errno);
    if (got == 0) return ends_before(offset);
    offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
  return {};
}

Status InputFile::read_parts(uint64_t offset, std::span<iovec> parts) const {
  uint64_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  ask_for(fd_, offset, bytes);
  while (!parts.empty()) {
    const auto count = static_cast<int>(std::min<size_t>(parts.size(), IOV_MAX));
    const ssize_t got = ::preadv(fd_, parts.data(), count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path_, offset, errno);
    if (got == 0) return ends_before(offset);
    offset += static_cast<uint64_t>(got);
    for (auto left = static_cast<size_t>(got); left > 0;) {
      const size_t here = std::min(left, parts[0].iov_len);
      parts[0].iov_base = static_cast<std::byte*>(parts[0].iov_base) + here;
      parts[0].iov_len -= here;
      left -= here;
      if (parts[0].iov_len == 0) parts = parts.subspan(1);
    }
  }
  return {};
}

Status InputFile::map() {
  if (size_ == 0) return {};
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
  if (map == MAP_FAILED) {
    return base::system_failure(fmt::format("map data file '{}'", path_), errno,
                                "open it with FileOptions::mapped = false");
  }
  map_ = static_cast<const std::byte*>(map);
  populated_ = std::vector<std::atomic<bool>>((size_ - 1) / kPopulatedBytes + 1);
  return {};
}

// Reports a read that returned nothing. The file may have grown back since.
Status InputFile::ends_before(uint64_t offset) const {
  FFDL_RETURN_IF_ERROR(check_size());
  return cut_short(path_, offset, size_);
}

Status InputFile::check_size() const {
  struct stat status{};
  if (::fstat(fd_, &status) != 0) return cannot_open(path_, errno);
  const auto size = static_cast<uint64_t>(status.st_size);
  return size < size_ ? cut_short(path_, size, size_) : Status();
}

void InputFile::populate(uint64_t offset, uint64_t bytes) const {
  if (bytes == 0) return;
  const uint64_t first = offset / kPopulatedBytes;
  const uint64_t end = (offset + bytes - 1) / kPopulatedBytes + 1;
  const std::byte* const begin = map_ + first * kPopulatedBytes;
  const uint64_t size = std::min(end * kPopulatedBytes, size_) - first * kPopulatedBytes;
  bool before = true;
  for (uint64_t i = first; i < end; ++i) {
    before = before && populated_[i].load(std::memory_order_relaxed);
  }
  if (before && is_resident(begin, size)) return;
  // Later reads find the errors of this call, which only saves a wait.
  if (::madvise(const_cast<std::byte*>(begin), size, MADV_POPULATE_READ) != 0) return;
  for (uint64_t i = first; i < end; ++i) populated_[i].store(true, std::memory_order_relaxed);
}

Result<std::span<const std::byte>> FileScanner::at(uint64_t offset, size_t bytes) {
  if (offset >= size_) return std::span<const std::byte>();
  if (is_unpacked()) {
    const auto rest = unpacked_.subspan(static_cast<size_t>(offset));
    return rest.first(std::min(bytes, rest.size()));
  }
  const uint64_t end = begin_ + piece_.size();
  if (offset + bytes > end && end < size_) {
    // Reads a small piece after a jump, so that callers that skip bytes do not read them.
    const size_t piece = offset <= end ? base::kScanBytes : base::kScanLeapBytes;
    piece_.resize(std::min<uint64_t>(std::max(piece, bytes), size_ - offset));
    begin_ = offset;
    FFDL_RETURN_IF_ERROR(file_.read(offset, piece_));
  }
  const std::span<const std::byte> rest =
      std::span<const std::byte>(piece_).subspan(static_cast<size_t>(offset - begin_));
  return rest.first(std::min(bytes, rest.size()));
}

}  // namespace ffdl::data
