#include "ffdl/diagnose.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/errors.h"
#include "base/own_path.h"
#include "base/printable.h"
#include "base/resource_limit.h"
#include "shm/liveness.h"
#include "shm/segment.h"

namespace ffdl {
namespace {

using base::make_error;

std::string_view kind_name(shm::SegmentKind kind) {
  switch (kind) {
    case shm::SegmentKind::kParameterServer:
      return "parameter server";
    case shm::SegmentKind::kCommunicator:
      return "communicator";
    case shm::SegmentKind::kMemory:
      return "memory";
    case shm::SegmentKind::kSumRing:
      return "sums";
    case shm::SegmentKind::kBatchRing:
      return "batches";
  }
  return "unknown";
}

double seconds_since(uint64_t unix_ns) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return static_cast<double>(now_ns - static_cast<int64_t>(unix_ns)) / 1e9;
}

// Refuses another user's file, which may be anything and may change at any time.
Status check_own(const struct stat& file) {
  if (file.st_uid != geteuid()) {
    return base::invalid_argument("it belongs to user {}; run 'ffdl doctor' as that user",
                                  file.st_uid);
  }
  if (!S_ISREG(file.st_mode)) {
    return base::invalid_argument("it is not a regular file; remove it by hand");
  }
  return {};
}

// Errors: those of check_own(), and those of the system.
Result<base::ForkPrivateFd> open_own(const std::string& path) {
  base::ForkPrivateFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat file = {};
  if (!fd.valid() || fstat(fd.get(), &file) != 0) {
    return base::system_failure("open it", errno, "'ffdl doctor' lists the segments",
                                errno == ENOENT ? StatusCode::kNotFound : StatusCode::kUnavailable);
  }
  FFDL_RETURN_IF_ERROR(check_own(file));
  return fd;
}

SegmentInfo describe(const std::string& path, const std::string& name, const struct stat& file) {
  SegmentInfo info;
  info.name = name;
  info.kind = "unknown";
  info.is_own = file.st_uid == geteuid();
  info.bytes = static_cast<uint64_t>(file.st_blocks) * 512;
  info.age_s = seconds_since(static_cast<uint64_t>(file.st_mtim.tv_sec) * 1'000'000'000);
  const Status own = check_own(file);
  const Result<base::ForkPrivateFd> opened =
      own.ok() ? open_own(path) : Result<base::ForkPrivateFd>(own);
  if (!opened.ok()) {
    info.problem = opened.status().message();
    return info;
  }
  const int fd = opened->get();
  info.in_use = shm::role_is_held(fd, shm::kAnyRole);
  const Result<shm::SegmentHeader> header = shm::read_segment_header(fd, name);
  if (!header.ok()) {
    info.problem = header.status().message();
    return info;
  }
  info.kind = kind_name(header->kind);
  info.age_s = seconds_since(header->created_unix_ns);
  info.creator_pid = header->creator_pid;
  return info;
}

}  // namespace

Result<std::vector<SegmentInfo>> list_segments() {
  std::vector<SegmentInfo> segments;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(shm::kSegmentFolder, error)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(shm::kSegmentPrefix)) continue;
    struct stat found = {};
    if (::lstat(entry.path().c_str(), &found) != 0) continue;  // it was removed meanwhile
    segments.push_back(
        describe(entry.path().string(), file.substr(shm::kSegmentPrefix.size()), found));
  }
  if (error) {
    return base::system_failure(fmt::format("list segments in {}", shm::kSegmentFolder),
                                error.value(), "is it mounted");
  }
  std::sort(segments.begin(), segments.end(),
            [](const SegmentInfo& a, const SegmentInfo& b) { return a.name < b.name; });
  return segments;
}

Status remove_segment(std::string_view name) {
  FFDL_RETURN_IF_ERROR(shm::check_segment_name(name));
  const std::string path = shm::segment_path(name);
  auto opened = open_own(path);
  if (!opened.ok()) {
    return std::move(opened).status().with_context(fmt::format("remove segment '{}'", name));
  }
  const Result<shm::RoleLock> all_roles = shm::RoleLock::acquire(opened->get(), shm::kAnyRole);
  if (!all_roles.ok() && all_roles.status().code() != StatusCode::kConflict) {
    return Status(all_roles.status()).with_context(fmt::format("remove segment '{}'", name));
  }
  if (!all_roles.ok()) {
    return make_error(StatusCode::kConflict,
                      "remove segment '{}': a living process uses it; stop that first", name);
  }
  if (::unlink(path.c_str()) != 0) {
    return base::system_failure(fmt::format("remove segment '{}'", name), errno,
                                "is its folder writable");
  }
  return {};
}

std::string printable(std::string_view text) { return base::printable(text); }

Status check_parents(std::string_view path) { return base::check_parents(std::string(path)); }

}  // namespace ffdl
