#include "base/resource_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <string>

#include "base/errors.h"

namespace ffdl::base {
namespace {

// Returns ", which is N bytes". Empty: there is no limit, so the file system cannot hold the file.
std::string present_file_size_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format(", which is {} bytes", limit.rlim_cur);
}

}  // namespace

std::string_view what_to_raise(int error) {
  switch (error) {
    case EMFILE:
      return "raise the limit of open files ('ulimit -n'), or close some";
    case ENFILE:
      return "raise the system's limit of open files (sysctl fs.file-max), or close some";
    case ENOMEM:
    case ENOBUFS:
      return "free some memory, or raise 'ulimit -v' or the container's limit of memory";
    case ENOSPC:
      return "make room on its disk";
    case EDQUOT:
      return "make room on its disk, or raise this user's quota there";
    case EFBIG:
      return "raise the limit of the size of files ('ulimit -f')";
    default:
      return {};
  }
}

int limit_named_in(std::string_view message) {
  for (const int error : {EMFILE, ENFILE, ENOMEM, ENOBUFS, ENOSPC, EDQUOT, EFBIG}) {
    if (message.find(errno_text(error)) != message.npos) return error;
  }
  return 0;
}

Status system_failure(std::string_view doing, int error, std::string_view advice,
                      StatusCode otherwise) {
  const std::string_view limit = what_to_raise(error);
  if (limit.empty()) return make_error(otherwise, "{}: {}; {}", doing, errno_text(error), advice);
  return make_error(StatusCode::kExhausted, "{}: {}; {}{}", doing, errno_text(error), limit,
                    error == EFBIG ? present_file_size_limit() : std::string());
}

}  // namespace ffdl::base
