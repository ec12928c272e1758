#include "base/resource_limit.h"

#include <cerrno>

#include "base/errors.h"

namespace ffdl::base {

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
  return make_error(StatusCode::kExhausted, "{}: {}; {}", doing, errno_text(error), limit);
}

}  // namespace ffdl::base
