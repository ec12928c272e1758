#include "ffdl/diagnose.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/errors.h"
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

SegmentInfo describe(int fd, const std::string& name) {
  SegmentInfo info;
  info.name = name;
  info.kind = "unknown";
  struct stat file = {};
  if (fstat(fd, &file) == 0) {
    info.bytes = static_cast<uint64_t>(file.st_blocks) * 512;
    info.age_s = seconds_since(static_cast<uint64_t>(file.st_mtim.tv_sec) * 1'000'000'000);
  }
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
    const base::ForkPrivateFd fd(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (fd.valid()) segments.push_back(describe(fd.get(), file.substr(shm::kSegmentPrefix.size())));
  }
  if (error) {
    return make_error(StatusCode::kUnavailable, "list segments in {}: {}", shm::kSegmentFolder,
                      error.message());
  }
  std::sort(segments.begin(), segments.end(),
            [](const SegmentInfo& a, const SegmentInfo& b) { return a.name < b.name; });
  return segments;
}

Status remove_segment(std::string_view name) {
  FFDL_RETURN_IF_ERROR(shm::check_segment_name(name));
  const std::string path = shm::segment_path(name);
  const base::ForkPrivateFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return make_error(StatusCode::kNotFound, "remove segment '{}': {}", name,
                      base::errno_text(errno));
  }
  const Result<shm::RoleLock> all_roles = shm::RoleLock::acquire(fd.get(), shm::kAnyRole);
  if (!all_roles.ok()) {
    return make_error(StatusCode::kConflict,
                      "remove segment '{}': a living process uses it; stop that first", name);
  }
  if (::unlink(path.c_str()) != 0) {
    return make_error(StatusCode::kUnavailable, "remove segment '{}': {}", name,
                      base::errno_text(errno));
  }
  return {};
}

}  // namespace ffdl
