#include "store/local/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <sstream>
#include <utility>

#include "base/errors.h"
#include "base/resource_limit.h"

namespace ffdl::store {
namespace {

Status not_absent(Status status) {
  if (status.code() != StatusCode::kNotFound) return status;
  return Status(StatusCode::kUnavailable, std::string(status.message()));
}

// Reads a short file that the kernel writes.
Result<std::string> read_from_kernel(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[256];
  const ssize_t got = file.get() < 0 ? -1 : ::read(file.get(), text, sizeof text);
  if (got <= 0) return cannot_use("read", path);
  return std::string(text, static_cast<size_t>(got));
}

}  // namespace

Status cannot_use(std::string_view doing, const std::string& path) {
  return base::system_failure(fmt::format("{} '{}'", doing, path), errno,
                              "does its folder exist, and is it writable");
}

Result<std::string> read_boot_id() { return read_from_kernel("/proc/sys/kernel/random/boot_id"); }

Result<Duration> read_clock_offset() {
  struct stat own {};
  struct stat of_children {};
  if (::stat("/proc/self/ns/time", &own) != 0) return Duration();  // the kernel has only one clock
  if (::stat("/proc/self/ns/time_for_children", &of_children) == 0 &&
      own.st_ino != of_children.st_ino) {
    return base::invalid_argument(
        "read the clock: this process has made a time namespace, and only its children enter it; "
        "open the store in a child, or before the namespace is made");
  }
  FFDL_ASSIGN_OR_RETURN(const std::string text, read_from_kernel("/proc/self/timens_offsets"));
  std::istringstream offsets(text);
  std::string clock;
  int64_t seconds = 0;
  int64_t nanoseconds = 0;
  while (offsets >> clock >> seconds >> nanoseconds) {
    if (clock != "monotonic") continue;
    return std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanoseconds);
  }
  return Duration();
}

Result<base::OwnFd> open_file(const std::string& path, int flags) {
  auto file = base::open_own_file(path, flags);
  if (file.ok()) return file;
  return not_absent(std::move(file).status());
}

Result<std::string> read_file(const std::string& path) {
  auto text = base::read_own_file(path);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) return std::string();
  return text;
}

Status replace_file(const std::string& path, std::string_view bytes) {
  return not_absent(base::replace_own_file(path, bytes));
}

Status replace_file(const std::string& path, std::string_view bytes, base::OwnFd& placed) {
  return not_absent(base::replace_own_file(path, bytes, placed));
}

}  // namespace ffdl::store
