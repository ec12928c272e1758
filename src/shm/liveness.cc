#include "shm/liveness.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"
#include "base/resource_limit.h"

namespace ffdl::shm {
namespace {

// Far beyond any segment's end: locks do not need bytes, and no read or write can reach them.
constexpr off_t kFirstLockByte = off_t{1} << 60;

struct flock lock_of(int64_t role, short type) {
  FFDL_CHECK(role >= kAnyRole, "a role is the number of a lock");
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kFirstLockByte + (role == kAnyRole ? 0 : role);
  lock.l_len = role == kAnyRole ? kRolesMax : 1;
  return lock;
}

}  // namespace

Result<RoleLock> RoleLock::acquire(int fd, int64_t role) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  RoleLock held;
  held.fd_ = base::ForkPrivateFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!held.fd_.valid()) {
    return base::system_failure(
        "open a lock", errno,
        fmt::format("more than {} descriptors of this library are open", base::kForkPrivateMax),
        StatusCode::kExhausted);
  }
  FFDL_ASSIGN_OR_RETURN(const bool is_mine, held.add(role));
  if (is_mine) return held;
  return Status(StatusCode::kConflict, "a living process holds the lock");
}

Result<bool> RoleLock::add(int64_t role) {
  struct flock lock = lock_of(role, F_WRLCK);
  if (fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  if (errno == ENOLCK) {
    return base::make_error(StatusCode::kExhausted,
                            "lock: {}; raise the limit of locks ('ulimit -x'), or end other "
                            "processes",
                            base::errno_text(errno));
  }
  return base::system_failure("lock", errno, "try again");
}

void RoleLock::drop(int64_t role) {
  struct flock lock = lock_of(role, F_UNLCK);
  fcntl(fd_.get(), F_OFD_SETLK, &lock);
}

bool role_is_held(int fd, int64_t role) {
  struct flock lock = lock_of(role, F_WRLCK);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace ffdl::shm
