#include "cli/job_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace ffdl::cli {
namespace {

namespace fs = std::filesystem;

std::string users_folder() {
  std::error_code error;
  fs::path temporary = fs::temp_directory_path(error);
  if (error) temporary = "/tmp";
  return (temporary / fmt::format("ffdl-{}", ::getuid())).string();
}

// It becomes the name of a folder.
Status check_name(const std::string& job) {
  if (!job.empty() && job.front() != '.' && job.find('/') == job.npos) return {};
  return Status(StatusCode::kInvalidArgument,
                fmt::format("find job '{}': it is no name; use one without '/' that does not begin "
                            "with a dot",
                            job));
}

std::string path_of(const std::string& job) { return users_folder() + "/" + job; }

Status cannot_use(const std::string& path, const std::string& why) {
  return Status(
      StatusCode::kUnavailable,
      fmt::format("use the folder '{}': {}; remove it, or set TMPDIR to another place", path, why));
}

// Others could have made it first, to read or replace what is in it.
Status make_users_folder() {
  const std::string path = users_folder();
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return cannot_use(path, std::strerror(errno));
  }
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return cannot_use(path, std::strerror(errno));
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::getuid() || (found.st_mode & 077) != 0) {
    return cannot_use(path, "it is not a folder of this user alone");
  }
  return {};
}

// Whether the descriptor is still that of the file of this path.
bool is_at(int fd, const std::string& path) {
  struct stat open{}, named{};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

}  // namespace

Result<JobFolder> JobFolder::create(const std::string& job) {
  FFDL_RETURN_IF_ERROR(check_name(job));
  FFDL_RETURN_IF_ERROR(make_users_folder());
  const std::string path = path_of(job);
  const std::string lock_path = path + "/run.lock";
  while (true) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return cannot_use(path, std::strerror(errno));
    }
    const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 && errno == ENOENT) continue;  // its last owner has just removed it
    if (lock < 0) return cannot_use(path, std::strerror(errno));
    JobFolder folder(path, lock);
    if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
      return Status(StatusCode::kConflict,
                    fmt::format("run job '{}': another 'ffdl run' of this host does; wait for its "
                                "end, or give another --job",
                                job));
    }
    if (is_at(lock, lock_path)) return folder;
  }
}

JobFolder::JobFolder(JobFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

JobFolder::~JobFolder() {
  if (lock_ >= 0) ::close(lock_);
}

Status JobFolder::write_store_url(const std::string& url) const {
  const std::string path = path_ + "/store_url";
  std::ofstream file(path + ".new", std::ios::trunc);
  file << url;
  file.close();
  if (!file || ::rename((path + ".new").c_str(), path.c_str()) != 0) {
    return cannot_use(path_, std::strerror(errno));
  }
  return {};
}

void JobFolder::remove() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Result<std::string> store_url_of(const std::string& job) {
  FFDL_RETURN_IF_ERROR(check_name(job));
  std::string url;
  const int lock = ::open((path_of(job) + "/run.lock").c_str(), O_RDWR | O_CLOEXEC);
  const bool is_run = lock >= 0 && ::flock(lock, LOCK_SH | LOCK_NB) != 0;
  if (lock >= 0) ::close(lock);
  if (is_run) std::ifstream(path_of(job) + "/store_url") >> url;
  if (!url.empty()) return url;
  return Status(StatusCode::kNotFound,
                fmt::format("find job '{}': no 'ffdl run' of this user runs it on this host; give "
                            "its name, or its --store",
                            job));
}

}  // namespace ffdl::cli
