#include "store/local/files.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "base/errors.h"
#include "base/resource_limit.h"

namespace ffdl::store {
namespace {

Status not_absent(Status status) {
  if (status.code() != StatusCode::kNotFound) return status;
  return Status(StatusCode::kUnavailable, std::string(status.message()));
}

}  // namespace

Status cannot_use(std::string_view doing, const std::string& path) {
  return base::system_failure(fmt::format("{} '{}'", doing, path), errno,
                              "does its folder exist, and is it writable");
}

Result<std::string> read_boot_id() {
  const std::string path = "/proc/sys/kernel/random/boot_id";
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t got = file.get() < 0 ? -1 : ::read(file.get(), text, sizeof text);
  if (got <= 0) return cannot_use("read", path);
  return std::string(text, static_cast<size_t>(got));
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
