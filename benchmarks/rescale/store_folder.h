#pragma once

#include <memory>
#include <string>
#include <utility>

#include "benchmarks/harness/resident.h"
#include "ffdl/status.h"

namespace ffdl::bench {

// Runs that process: this program again, with --role server FOLDER.
Status play_store_server(const std::string& folder);

// A store in a folder of its own, which another process serves.
// Threads: one.
// Owns: the process and the folder, both removed with this object.
class StoreFolder {
 public:
  static Result<std::unique_ptr<StoreFolder>> start();
  ~StoreFolder();
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  const std::string& path() const { return path_; }
  const Resident& server() const { return *server_; }

 private:
  explicit StoreFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::unique_ptr<Resident> server_;
};

}  // namespace ffdl::bench
