#include "base/own_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <list>

#include "base/errors.h"
#include "base/resource_limit.h"

namespace ffdl::base {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // the kernel's limit

// Follows the folders that lead to a path, from the root on. All folders passed so far belong to
// trusted users, so their names cannot change.
class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path) {}

  Status run();

 private:
  Status enter(const std::string& name);
  Status check(const std::string& parent, const struct stat& found) const;
  Status follow(const std::string& link);
  Status failed(const std::string& parent, int error) const;

  const std::string& path_;
  std::string at_ = "/";
  std::list<std::string> left_;
  int links_ = 0;
  bool is_over_ = false;
};

std::list<std::string> names_of(const fs::path& path) {
  std::list<std::string> names;
  for (const fs::path& name : path.relative_path()) names.push_back(name.string());
  return names;
}

// Returns true for the overflow user of a user namespace. All users that the namespace does not
// know share this number, including the host's root. The number must belong to no other user.
bool is_unknown_user(uid_t user) {
  uint64_t overflow = 0;
  std::ifstream("/proc/sys/kernel/overflowuid") >> overflow;
  if (user != overflow) return false;
  std::ifstream map("/proc/self/uid_map");
  uint64_t inside = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  bool has_lines = false;
  while (map >> inside >> outside >> count) {
    has_lines = true;
    if (user >= inside && user - inside < count) return false;
  }
  return has_lines;
}

// Some systems give each user a private group with the user's number. Members of root's group are
// trusted as root is.
bool others_may_write(const struct stat& found) {
  const bool is_own_group = found.st_gid == 0 || found.st_gid == ::geteuid();
  return (found.st_mode & S_IWOTH) != 0 || ((found.st_mode & S_IWGRP) != 0 && !is_own_group);
}

Status Walk::run() {
  std::error_code error;
  const fs::path whole = fs::absolute(path_, error);
  if (error) return failed(".", error.value());
  left_ = names_of(whole.parent_path());
  FFDL_RETURN_IF_ERROR(enter("."));
  while (!left_.empty() && !is_over_) {
    const std::string name = std::move(left_.front());
    left_.pop_front();
    FFDL_RETURN_IF_ERROR(enter(name));
  }
  return {};
}

Status Walk::enter(const std::string& name) {
  if (name.empty()) return {};
  if (name == "..") {
    at_ = fs::path(at_).parent_path().string();
    return {};
  }
  const std::string next = name == "." ? at_ : (fs::path(at_) / name).string();
  struct stat found = {};
  if (::lstat(next.c_str(), &found) != 0) {
    is_over_ = errno == ENOENT || errno == ENOTDIR;
    return is_over_ ? Status() : failed(next, errno);
  }
  FFDL_RETURN_IF_ERROR(check(next, found));
  if (S_ISLNK(found.st_mode)) return follow(next);
  at_ = next;
  return {};
}

Status Walk::check(const std::string& parent, const struct stat& found) const {
  const bool is_link = S_ISLNK(found.st_mode);
  if (found.st_uid != 0 && found.st_uid != ::geteuid() && !is_unknown_user(found.st_uid)) {
    return invalid_argument(
        "use '{}': {} '{}' on the way to it belongs to user {} and this process runs as user {}; "
        "that user could replace the folder; name one below folders that belong to root or to you",
        path_, is_link ? "the link" : "the folder", parent, found.st_uid, ::geteuid());
  }
  if (is_link || !others_may_write(found) || (found.st_mode & S_ISVTX) != 0) return {};
  return invalid_argument(
      "use '{}': the mode {:04o} of the folder '{}' on the way to it lets other users replace the "
      "folder; remove that right ('chmod go-w'), set the sticky bit ('chmod +t'), or name a folder "
      "elsewhere",
      path_, found.st_mode & 07777, parent);
}

Status Walk::follow(const std::string& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  if (!error && ++links_ > kLinksMax) {
    error = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  }
  if (error) return failed(link, error.value());
  if (target.is_absolute()) at_ = "/";
  left_.splice(left_.begin(), names_of(target));
  return {};
}

Status Walk::failed(const std::string& parent, int error) const {
  return system_failure(fmt::format("use '{}': '{}' on the way to it", path_, parent), error,
                        "may this user search it");
}

}  // namespace

Status check_parents(const std::string& path) { return Walk(path).run(); }

}  // namespace ffdl::base
