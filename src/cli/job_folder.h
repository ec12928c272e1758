#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::cli {

// Owns the folder of a job that `ffdl run` runs on this host. The folder contains the store's log,
// and other commands read the store's URL there. It is in a folder that belongs to the user alone,
// below the system's folder for temporary files. Threads: one at a time.
// Errors of all below: kUnavailable (the folder cannot be used, or TMPDIR names none), kExhausted
// (a limit that the message names), kInvalidArgument (no name).
class JobFolder {
 public:
  // Creates the folder. A job without a name is never run again: its folder may be removed once its
  // processes have ended. Errors: kConflict (another process has it).
  static Result<JobFolder> create(const std::string& job, bool is_named = true);
  ~JobFolder();
  JobFolder(JobFolder&& other) noexcept;
  JobFolder& operator=(JobFolder&&) = delete;

  std::string store_folder() const { return path_ + "/store"; }
  Status write_store_url(const std::string& url) const;
  // Removes the folder with its contents.
  void remove();
  const std::string& path() const { return path_; }

 private:
  JobFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  std::string path_;
  int lock_ = -1;
};

// Returns the URL of the job's store. Errors: kNotFound (no `ffdl run` of this user runs it on this
// host).
Result<std::string> store_url_of(const std::string& job);

// Returns the secret that the store of a job on this host has made; empty: this host has none.
Result<std::string> store_secret_of(const std::string& job);

// A folder of this user, as `ffdl doctor` lists it.
struct JobFolderInfo {
  std::string job{};
  bool is_named = true;  // a job with a name may be run again, and continues from its folder
  bool in_use = false;   // a process runs the job, or serves its store
  int64_t process = 0;   // the `ffdl run` that has or had it; 0: not known
};
Result<std::vector<JobFolderInfo>> list_job_folders();

// Removes the folder of a job without a name. Errors: kConflict (it is in use, or has a name).
Status remove_job_folder(const std::string& job);

// Removes the folders of all jobs without a name whose processes have ended: they were killed.
Status remove_dead_folders();

}  // namespace ffdl::cli
