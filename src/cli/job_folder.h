#pragma once

#include <string>

#include "ffdl/status.h"

namespace ffdl::cli {

// The folder of a job that `ffdl run` runs on this host: where its store's log lies, and where
// other commands learn the store's URL. It is below the system's folder for temporary files, in one
// that belongs to the user alone. Threads: one at a time.
class JobFolder {
 public:
  // Errors: kConflict (another process has it), kUnavailable, kInvalidArgument (no name).
  static Result<JobFolder> create(const std::string& job);
  ~JobFolder();
  JobFolder(JobFolder&& other) noexcept;
  JobFolder& operator=(JobFolder&&) = delete;

  std::string store_folder() const { return path_ + "/store"; }
  Status write_store_url(const std::string& url) const;
  // With all that is in it.
  void remove();

 private:
  JobFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  std::string path_;
  int lock_ = -1;
};

// Where the job's store is. Errors: kNotFound (no `ffdl run` of this user runs it on this host),
// kInvalidArgument (no name).
Result<std::string> store_url_of(const std::string& job);

}  // namespace ffdl::cli
