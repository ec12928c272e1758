#include "shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "base/errors.h"
#include "base/held_signal.h"
#include "base/limits.h"
#include "base/resource_limit.h"
#include "ffdl/runtime.h"

namespace ffdl::shm {
namespace {

using base::errno_text;
using base::make_error;

uint64_t header_checksum(const SegmentHeader& header) {
  return XXH3_64bits(&header, offsetof(SegmentHeader, checksum));
}

std::string shown(std::string_view name) {
  return name.empty() ? std::string("anonymous") : fmt::format("'{}'", name);
}

std::string link_path(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

Status no_room(const SegmentSpec& spec) {
  struct statvfs folder = {};
  const bool known = statvfs(std::string(kSegmentFolder).c_str(), &folder) == 0;
  const uint64_t mib = uint64_t{1} << 20;
  const uint64_t block = folder.f_frsize;
  return make_error(
      StatusCode::kExhausted,
      "create segment {}: {} MiB do not fit into {} ({} of {} MiB are free); free some ('ffdl "
      "doctor' "
      "removes what dead jobs left), or enlarge it (a container has 64 MiB by default: docker run "
      "--shm-size, or a memory-backed emptyDir in Kubernetes)",
      shown(spec.name), (spec.bytes + mib - 1) / mib, spec.name.empty() ? "memory" : kSegmentFolder,
      known ? folder.f_bavail * block / mib : 0, known ? folder.f_blocks * block / mib : 0);
}

Result<int> make_file(const SegmentSpec& spec) {
  const int fd = spec.name.empty() ? memfd_create("ffdl", MFD_CLOEXEC | MFD_ALLOW_SEALING)
                                   : ::open(std::string(kSegmentFolder).c_str(),
                                            O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {
    return base::system_failure(fmt::format("create segment {}", shown(spec.name)), errno,
                                fmt::format("is {} a writable tmpfs", kSegmentFolder));
  }
  return fd;
}

// Makes a file of zeroes without pages.
Status set_size(int fd, const SegmentSpec& spec) {
  struct statvfs folder = {};
  // A size that cannot fit is refused before it fills the folder, or all memory, where the kernel
  // would kill a process. f_blocks is 0 if the folder has no limit.
  const bool in_memory = spec.bytes / static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) <=
                         static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  const bool fits =
      in_memory && (spec.name.empty() || fstatvfs(fd, &folder) != 0 || folder.f_blocks == 0 ||
                    spec.bytes / folder.f_frsize <= folder.f_bavail);
  const base::HeldSignal file_size_signal(SIGXFSZ);
  if (fits && ftruncate(fd, static_cast<off_t>(spec.bytes)) == 0) return {};
  if (!fits || errno == ENOMEM || errno == EINVAL) return no_room(spec);
  return base::system_failure(
      fmt::format("create segment {}: make it {} bytes long", shown(spec.name), spec.bytes), errno,
      "try another size");
}

// Sets the policies of pages, which belong to the file. They split the temporary mapping, so that
// the segment's own mapping remains one in whole huge pages.
void set_policies(int fd, const SegmentSpec& spec) {
  if (!spec.place) return;
  void* memory = mmap(nullptr, spec.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return;
  spec.place(static_cast<std::byte*>(memory));
  munmap(memory, spec.bytes);
}

// Populates every page through the mapping. If huge pages require advice (huge=advise),
// posix_fallocate alone gets none, since it has no mapping to carry the advice. Both madvise calls
// may be refused (no huge pages; no room; a kernel before 5.14). reserve() decides.
void fill(std::byte* memory, uint64_t bytes) {
  madvise(memory, bytes, MADV_HUGEPAGE);
  madvise(memory, bytes, MADV_POPULATE_WRITE);
}

// Reserves every missing page; tmpfs fills pages with zeroes.
Status reserve(int fd, const SegmentSpec& spec) {
  int error = 0;
  const base::HeldSignal file_size_signal(SIGXFSZ);
  do {
    error = posix_fallocate(fd, 0, static_cast<off_t>(spec.bytes));
  } while (error == EINTR);
  if (error == ENOSPC || error == ENOMEM) return no_room(spec);
  if (error != 0) {
    return base::system_failure(
        fmt::format("create segment {}: reserve {} bytes", shown(spec.name), spec.bytes), error,
        "try another size");
  }
  if (spec.name.empty()) fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return {};
}

SegmentHeader make_header(const SegmentSpec& spec) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  SegmentHeader header = {};
  header.magic = kSegmentMagic;
  header.format = kSegmentFormat;
  header.kind = spec.kind;
  header.layout_version = spec.layout_version;
  header.bytes = spec.bytes;
  header.generation = system_runtime().random();
  header.creator_pid = getpid();
  header.created_unix_ns =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  header.checksum = header_checksum(header);
  return header;
}

// Refuses another user's file, which that user could truncate; the next access would be a bus
// error. The mode of an anonymous segment is irrelevant, since only its descriptor leads to it.
Status check_owner(int fd, std::string_view name) {
  struct stat file = {};
  if (fstat(fd, &file) != 0) {
    return base::system_failure(fmt::format("open segment {}", shown(name)), errno, "try again");
  }
  if (file.st_uid != geteuid()) {
    return base::invalid_argument(
        "open segment {}: it belongs to user {}, and this process runs as user {}; run all "
        "processes of a job as one user, or take another name",
        shown(name), file.st_uid, geteuid());
  }
  if (!name.empty() && (file.st_mode & 0077) != 0) {
    return base::invalid_argument(
        "open segment {}: its mode {:04o} gives other users access; something changed it: stop the "
        "job and remove it ('ffdl doctor')",
        shown(name), file.st_mode & 07777);
  }
  return {};
}

}  // namespace

Status check_segment_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  };
  if (name.empty() || name.size() > base::kSegmentNameMax) {
    return base::invalid_argument("name a segment: {} characters; use 1 to {}", name.size(),
                                  base::kSegmentNameMax);
  }
  for (const char c : name) {
    if (!allowed(c)) {
      return base::invalid_argument(
          "name a segment '{}': character '{}'; use letters, digits, '.', '-' and '_'", name, c);
    }
  }
  return {};
}

std::string segment_path(std::string_view name) {
  return fmt::format("{}/{}{}", kSegmentFolder, kSegmentPrefix, name);
}

Result<SegmentHeader> read_segment_header(int fd, std::string_view name) {
  struct stat file = {};
  SegmentHeader header = {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
    return make_error(StatusCode::kCorrupt, "open segment {}: it is not a regular file; remove it",
                      shown(name));
  }
  const ssize_t got = pread(fd, &header, sizeof header, 0);
  if (got != static_cast<ssize_t>(sizeof header) || header.magic != kSegmentMagic) {
    return make_error(
        StatusCode::kCorrupt,
        "open segment {}: {} bytes that do not begin like a segment of ffdl; remove it "
        "('ffdl doctor') and start the job again",
        shown(name), file.st_size);
  }
  if (header.format != kSegmentFormat) {
    return base::invalid_argument(
        "open segment {}: made by another version of ffdl (header format {}, this build has {}); "
        "use "
        "the same version in all processes of a job",
        shown(name), header.format, kSegmentFormat);
  }
  if (header.checksum != header_checksum(header)) {
    return make_error(StatusCode::kCorrupt,
                      "open segment {}: its header fails the checksum; something wrote over it: "
                      "remove it ('ffdl doctor') and restore from a checkpoint",
                      shown(name));
  }
  if (header.bytes != static_cast<uint64_t>(file.st_size)) {
    return make_error(StatusCode::kCorrupt,
                      "open segment {}: {} bytes, {} by its header; it was truncated or extended: "
                      "remove it ('ffdl doctor') and restore from a checkpoint",
                      shown(name), file.st_size, header.bytes);
  }
  return header;
}

Result<Segment> Segment::create(const SegmentSpec& spec) {
  if (!spec.name.empty()) FFDL_RETURN_IF_ERROR(check_segment_name(spec.name));
  FFDL_CHECK(spec.bytes >= sizeof(SegmentHeader), "a segment has its header");
  FFDL_ASSIGN_OR_RETURN(const int fd, make_file(spec));
  Segment segment;
  segment.name_ = spec.name;
  if (Status sized = set_size(fd, spec); !sized.ok()) {
    ::close(fd);
    return sized;
  }
  FFDL_RETURN_IF_ERROR(segment.map(fd, spec.bytes, 0));
  set_policies(fd, spec);  // before the first page: existing pages do not move
  fill(segment.data_, spec.bytes);
  FFDL_RETURN_IF_ERROR(reserve(fd, spec));
  const SegmentHeader header = make_header(spec);
  std::memcpy(segment.data_, &header, sizeof header);
  return segment;
}

Status Segment::publish() {
  if (name_.empty()) return {};
  const std::string path = segment_path(name_);
  if (linkat(AT_FDCWD, link_path(fd()).c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) {
    return {};
  }
  if (errno == EEXIST) {
    return make_error(StatusCode::kConflict,
                      "create segment '{}': the name is in use; take another name, adopt it if its "
                      "server is dead, or let 'ffdl doctor' remove it",
                      name_);
  }
  return base::system_failure(fmt::format("create segment '{}': link {}", name_, path), errno,
                              "/proc must be mounted");
}

Result<Segment> Segment::open(std::string_view name, SegmentKind kind, uint32_t layout_version) {
  FFDL_RETURN_IF_ERROR(check_segment_name(name));
  const int fd = ::open(segment_path(name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    return base::system_failure(fmt::format("open segment '{}'", name), errno,
                                "'ffdl doctor' lists the segments",
                                errno == ENOENT ? StatusCode::kNotFound : StatusCode::kUnavailable);
  }
  return open_fd(fd, name, kind, layout_version);
}

Result<Segment> Segment::open_of(int64_t pid, int fd, SegmentKind kind, uint32_t layout_version) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) {
    return base::system_failure(fmt::format("open the memory of process {}: {}", pid, path), errno,
                                "it must be of the same user, and alive");
  }
  return open_fd(opened, "", kind, layout_version);
}

Result<Segment> Segment::open_fd(int fd, std::string_view name, SegmentKind kind,
                                 uint32_t layout_version) {
  Segment segment;
  segment.name_ = name;
  if (Status ours = check_owner(fd, name); !ours.ok()) {
    ::close(fd);
    return ours;
  }
  Result<SegmentHeader> header = read_segment_header(fd, name);
  Status fit = header.ok() ? Status() : header.status();
  if (fit.ok() && header->kind != kind) {
    fit = base::invalid_argument("open segment {}: of kind {}, not {}; check the name", shown(name),
                                 static_cast<uint32_t>(header->kind), static_cast<uint32_t>(kind));
  }
  if (fit.ok() && header->layout_version != layout_version) {
    fit = base::invalid_argument(
        "open segment {}: layout version {}, this build has {}; use the same version of ffdl in "
        "all "
        "processes of a job",
        shown(name), header->layout_version, layout_version);
  }
  if (!fit.ok()) {
    ::close(fd);
    return fit;
  }
  // Page tables are filled now, since a fault during a training step costs more.
  FFDL_RETURN_IF_ERROR(segment.map(fd, header->bytes, MAP_POPULATE));
  return segment;
}

// Takes `fd` over, also on failure.
Status Segment::map(int fd, uint64_t bytes, int flags) {
  fd_ = base::ForkPrivateFd(fd);
  if (!fd_.valid()) {
    return make_error(StatusCode::kExhausted,
                      "map segment {}: more than {} are open in this process", shown(name_),
                      base::kForkPrivateMax);
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
  if (memory == MAP_FAILED) {
    return base::system_failure(fmt::format("map segment {}: {} bytes", shown(name_), bytes), errno,
                                "free some memory", StatusCode::kExhausted);
  }
  data_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  return {};
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Segment::Segment(Segment&& other) noexcept
    : name_(std::move(other.name_)),
      fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}

Status Segment::renew() {
  FFDL_ASSIGN_OR_RETURN(
      Segment fresh,
      create({.kind = header().kind, .layout_version = header().layout_version, .bytes = bytes_}));
  if (mremap(fresh.data_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, data_) == MAP_FAILED) {
    return base::system_failure(fmt::format("renew a segment of {} bytes", bytes_), errno,
                                "free some memory", StatusCode::kExhausted);
  }
  fresh.data_ = nullptr;  // it is mapped at data_ now
  fd_ = std::move(fresh.fd_);
  return {};
}

Status Segment::check_linked() const {
  struct stat file = {};
  if (name_.empty() || (fstat(fd(), &file) == 0 && file.st_nlink > 0)) return {};
  return make_error(StatusCode::kNotFound,
                    "open segment '{}': it was removed meanwhile; start the job again", name_);
}

void Segment::unlink() {
  if (name_.empty() || !fd_.valid()) return;
  struct stat mine = {};
  struct stat named = {};
  const std::string path = segment_path(name_);
  const bool same = fstat(fd(), &mine) == 0 && stat(path.c_str(), &named) == 0 &&
                    mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
  if (same) ::unlink(path.c_str());
}

}  // namespace ffdl::shm
