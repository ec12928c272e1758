#include "cli/job_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/names.h"
#include "base/resource_limit.h"
#include "ffdl/diagnose.h"
#include "ffdl/runtime.h"

namespace ffdl::cli {
namespace {

namespace fs = std::filesystem;

Result<std::string> users_folder() {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (!error) return (temporary / fmt::format("ffdl-{}", ::getuid())).string();
  return Status(StatusCode::kUnavailable,
                "find the folder for temporary files: the one in TMPDIR does not exist; create it, "
                "or set TMPDIR to another");
}

// Checks a job's name, which becomes the name of a folder and a part of the store's keys.
Status check_name(const std::string& job) {
  if (base::is_name(job) && job.front() != '.') return {};
  return Status(StatusCode::kInvalidArgument,
                fmt::format("find job '{}': it is not a valid name; use 1 to {} letters, digits "
                            "and signs except '/', and no dot at its beginning",
                            job, base::kMemberIdMax));
}

Result<std::string> path_of(const std::string& job) {
  FFDL_RETURN_IF_ERROR(check_name(job));
  FFDL_ASSIGN_OR_RETURN(const std::string users, users_folder());
  return users + "/" + job;
}

Status cannot_use(const std::string& path, const std::string& why) {
  return Status(
      StatusCode::kUnavailable,
      fmt::format("use the folder '{}': {}; remove it, or set TMPDIR to another place", path, why));
}

Status cannot_use(const std::string& path, int error) {
  return base::system_failure(fmt::format("use the folder '{}'", path), error,
                              "remove it, or set TMPDIR to another place");
}

// Checks the owner of the user's folder. Another user could have made it first, or a folder above
// it, to read or replace its contents. That user could also direct a command to another store.
Status check_users_folder() {
  FFDL_ASSIGN_OR_RETURN(const std::string path, users_folder());
  FFDL_RETURN_IF_ERROR(check_parents(path));
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? Status() : cannot_use(path, errno);  // no job runs
  }
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::getuid() || (found.st_mode & 077) != 0) {
    return cannot_use(path, "it is not a folder that only this user can access");
  }
  return {};
}

Status make_users_folder() {
  FFDL_ASSIGN_OR_RETURN(const std::string path, users_folder());
  FFDL_RETURN_IF_ERROR(check_parents(path));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return cannot_use(path, errno);
  }
  return check_users_folder();
}

// Returns true if the descriptor is still that of the file of this path.
bool is_at(int fd, const std::string& path) {
  struct stat open{}, named{};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

// Tries a lock, and holds it if it was free.
class TriedLock {
 public:
  explicit TriedLock(const std::string& path)
      : fd_(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)),
        is_held_(fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0 && is_at(fd_, path)),
        error_(is_held_ ? 0 : errno) {}
  ~TriedLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  TriedLock(const TriedLock&) = delete;
  TriedLock& operator=(const TriedLock&) = delete;

  int fd() const { return fd_; }
  bool is_held() const { return is_held_; }
  bool is_absent() const { return fd_ < 0 && error_ == ENOENT; }
  // Returns the reason why it could not be tried; 0: it could, or is absent.
  int error() const { return fd_ < 0 && !is_absent() ? error_ : 0; }

 private:
  const int fd_;
  const bool is_held_;
  const int error_;
};

// Writes this process into the lock's file, for processes that find it locked.
void write_process(int lock) {
  const std::string process = std::to_string(::getpid());
  static_cast<void>(::ftruncate(lock, 0));
  static_cast<void>(::pwrite(lock, process.data(), process.size(), 0));
}

// Returns the process in the lock's file; 0: it is not known.
int64_t read_process(int lock) {
  char text[24] = {};
  if (::pread(lock, text, sizeof text - 1, 0) <= 0) return 0;
  return std::strtoll(text, nullptr, 10);
}

std::string described(int64_t process) {
  return process > 0 ? fmt::format(", as process {}", process) : "";
}

// Waits for the lock for a moment: others may hold it briefly without running the job.
bool lock_soon(int lock) {
  const Time patience = deadline_in(std::chrono::milliseconds(500));
  const auto never = system_runtime().make_event();
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK) return false;
    if (deadline_in({}) >= patience) return false;
    never->wait_until(deadline_in(std::chrono::milliseconds(10)));
  }
  return true;
}

// Returns the path of the mark: a job without a name has this file in its folder.
std::string mark_in(const std::string& path) { return path + "/unnamed"; }

// Returns true if the folder belongs to a job with a name: it has no mark, and contents beside the
// lock. A process that was killed before it could write the mark has left no more than its lock.
bool belongs_to_named_job(const std::string& path) {
  std::error_code error;
  if (fs::exists(mark_in(path), error)) return false;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().filename() != "run.lock") return true;
  }
  return bool(error);  // it cannot be read
}

void write_mark(const std::string& path, bool is_named) {
  std::error_code ignored;
  if (is_named) {
    fs::remove(mark_in(path), ignored);
  } else {
    std::ofstream(mark_in(path)).flush();
  }
}

// Holds the free locks of a job's folder as long as this object lives.
struct FolderLocks {
  explicit FolderLocks(const std::string& path) : run(path + "/run.lock") {
    if (run.is_held()) store.emplace(path + "/store/server.lock");
  }
  int error() const { return run.error() != 0 || !store ? run.error() : store->error(); }
  bool are_held() const { return store && (store->is_held() || store->is_absent()); }

  TriedLock run;
  std::optional<TriedLock> store;  // the store server's lock; a worker may hold it
};

}  // namespace

Result<JobFolder> JobFolder::create(const std::string& job, bool is_named) {
  FFDL_ASSIGN_OR_RETURN(const std::string path, path_of(job));
  FFDL_RETURN_IF_ERROR(make_users_folder());
  const std::string lock_path = path + "/run.lock";
  while (true) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return cannot_use(path, errno);
    }
    const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 && errno == ENOENT) continue;  // its last owner has just removed it
    if (lock < 0) return cannot_use(path, errno);
    JobFolder folder(path, lock);
    if (!lock_soon(lock)) {
      return Status(StatusCode::kConflict,
                    fmt::format("run job '{}': another 'ffdl run' on this host runs it{}; wait "
                                "until it ends, or give another --job",
                                job, described(read_process(lock))));
    }
    if (!is_at(lock, lock_path)) continue;
    write_process(lock);
    write_mark(path, is_named);
    return folder;
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
    return cannot_use(path_, errno);
  }
  return {};
}

void JobFolder::remove() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Result<std::string> store_url_of(const std::string& job) {
  FFDL_ASSIGN_OR_RETURN(const std::string path, path_of(job));
  FFDL_RETURN_IF_ERROR(check_users_folder());
  std::string url;
  const int lock = ::open((path + "/run.lock").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (lock < 0 && errno != ENOENT) return cannot_use(path, errno);
  const bool is_run = lock >= 0 && ::flock(lock, LOCK_SH | LOCK_NB) != 0;
  if (lock >= 0) ::close(lock);
  if (is_run) std::ifstream(path + "/store_url") >> url;
  if (!url.empty()) return url;
  return Status(StatusCode::kNotFound,
                fmt::format("find job '{}': no 'ffdl run' of this user runs it on this host; check "
                            "the name, or give the job's --store",
                            job));
}

Result<std::string> store_secret_of(const std::string& job) {
  FFDL_ASSIGN_OR_RETURN(const std::string path, path_of(job));
  const std::string file = path + "/store/secret";
  std::error_code error;
  if (!fs::exists(file, error)) return std::string();
  FFDL_RETURN_IF_ERROR(make_users_folder());  // checks that it is private to the user
  std::string secret;
  errno = 0;
  std::ifstream(file) >> secret;
  if (!secret.empty()) return secret;
  if (errno != 0) return cannot_use(path, errno);
  return cannot_use(path, "the secret in it cannot be read");
}

Result<std::vector<JobFolderInfo>> list_job_folders() {
  FFDL_ASSIGN_OR_RETURN(const std::string users, users_folder());
  std::vector<JobFolderInfo> found;
  std::error_code error;
  if (!fs::exists(users, error)) return found;
  FFDL_RETURN_IF_ERROR(make_users_folder());
  for (const auto& entry : fs::directory_iterator(users, error)) {
    std::error_code gone;  // a file there locks a parameter server, and may be removed meanwhile
    if (!entry.is_directory(gone)) continue;
    const std::string path = entry.path().string();
    const FolderLocks locks(path);
    if (locks.run.is_absent()) continue;  // it is being created, or belongs to no job
    if (const int why = locks.error(); why != 0) return cannot_use(path, why);
    found.push_back({entry.path().filename().string(), belongs_to_named_job(path),
                     !locks.are_held(), read_process(locks.run.fd())});
  }
  if (error) return cannot_use(users, error.value());
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.job < b.job; });
  return found;
}

Status remove_job_folder(const std::string& job) {
  FFDL_ASSIGN_OR_RETURN(const std::string path, path_of(job));
  FFDL_RETURN_IF_ERROR(make_users_folder());
  const FolderLocks locks(path);
  std::error_code error;
  if (!locks.are_held() || belongs_to_named_job(path)) {
    return Status(StatusCode::kConflict,
                  fmt::format("remove the folder of job '{}': it is in use, or the job has a name; "
                              "end the job first",
                              job));
  }
  fs::remove_all(path, error);
  return error ? cannot_use(path, error.value()) : Status();
}

Status remove_dead_folders() {
  FFDL_ASSIGN_OR_RETURN(const auto found, list_job_folders());
  Status outcome;
  for (const JobFolderInfo& folder : found) {
    if (folder.is_named || folder.in_use) continue;
    const Status removed = remove_job_folder(folder.job);
    if (!removed.ok() && removed.code() != StatusCode::kConflict) outcome = removed;
  }
  return outcome;
}

}  // namespace ffdl::cli
