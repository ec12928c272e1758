#include "store/tcp/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/errors.h"
#include "base/resource_limit.h"
#include "store/local/files.h"

namespace ffdl::store {

using base::make_error;

namespace {

constexpr std::string_view kLogMagic = "ffdllog1";

// Precedes each record. Little-endian, as written by the host that reads it.
struct Header {
  uint64_t size;
  uint64_t size_check;  // of size and place: a wrong size must not look like a torn record
  uint64_t check;       // of the record
};
static_assert(sizeof(Header) == 24);

uint64_t check_of(std::string_view bytes, size_t place) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), place);
}

uint64_t check_of_size(uint64_t size, size_t place) {
  return XXH3_64bits_withSeed(&size, sizeof size, place);
}

std::string with_header(std::string_view record, size_t place) {
  const Header header{record.size(), check_of_size(record.size(), place), check_of(record, place)};
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes.append(record);
}

bool only_zeros(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

Status is_corrupt(std::string_view what, size_t place) {
  return make_error(StatusCode::kCorrupt,
                    "read a store's log: {} at byte {}; something else wrote to it: stop the job, "
                    "remove the file and start again",
                    what, place);
}

}  // namespace

Result<size_t> LogFile::read(std::string_view bytes, const OnRecord& on_record) {
  if (!bytes.starts_with(kLogMagic.substr(0, bytes.size()))) {
    return is_corrupt("its first bytes are wrong", 0);
  }
  if (bytes.size() < kLogMagic.size()) return is_corrupt("it ends too early", bytes.size());
  size_t place = kLogMagic.size();
  while (place < bytes.size()) {
    const std::string_view rest = bytes.substr(place);
    Header header{};
    if (rest.size() < sizeof header || only_zeros(rest)) return place;
    std::memcpy(&header, rest.data(), sizeof header);
    if (header.size_check != check_of_size(header.size, place)) {
      return is_corrupt("a record's size is wrong", place);
    }
    if (header.size > rest.size() - sizeof header) return place;
    const std::string_view record = rest.substr(sizeof header, header.size);
    if (header.check != check_of(record, place)) {
      return is_corrupt("a record's checksum is wrong", place);
    }
    FFDL_RETURN_IF_ERROR(on_record(record));
    place += sizeof header + record.size();
  }
  return place;
}

Result<LogFile> LogFile::open(const std::string& path, const OnRecord& on_record) {
  // Made whole, so that a log that was truncated to nothing is not taken for a new one.
  auto there = base::open_own_file(path, O_RDWR | O_APPEND);
  if (!there.ok() && there.status().code() == StatusCode::kNotFound) {
    FFDL_RETURN_IF_ERROR(replace_file(path, kLogMagic));
    there = open_file(path, O_RDWR | O_APPEND);
  }
  FFDL_ASSIGN_OR_RETURN(base::OwnFd file, std::move(there));
  LogFile log(path, file.release());
  FFDL_ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  auto whole = read(bytes, on_record);
  if (!whole.ok()) return std::move(whole).status().with_context(path);
  log.bytes_ = *whole;
  log.cut_ = bytes.size() - log.bytes_;
  if (log.cut_ > 0 && ::ftruncate(log.fd_, static_cast<off_t>(log.bytes_)) != 0) {
    return cannot_use("cut the torn end of store log", path);
  }
  return log;
}

LogFile::LogFile(LogFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      cut_(other.cut_),
      torn_(other.torn_) {}

LogFile::~LogFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status LogFile::append(std::string_view record) {
  if (torn_) torn_ = ::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0;
  const std::string bytes = with_header(record, bytes_);
  const int error = torn_ ? EIO : write_all(fd_, bytes);
  if (error == 0) {
    bytes_ += bytes.size();
    return {};
  }
  torn_ = ::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0;
  return base::system_failure(fmt::format("write to the store's log '{}'", path_), error,
                              "is its disk damaged");
}

Status LogFile::replace(std::string_view record) {
  std::string bytes(kLogMagic);
  bytes += with_header(record, kLogMagic.size());
  base::OwnFd placed;
  Status replaced = replace_file(path_, bytes, placed);
  if (placed.get() < 0) return replaced;  // the old file still has its place
  ::close(std::exchange(fd_, placed.release()));
  bytes_ = bytes.size();
  torn_ = false;
  return replaced;
}

}  // namespace ffdl::store
