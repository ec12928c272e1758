#include "benchmarks/rescale/store_folder.h"

#include <filesystem>

#include "benchmarks/harness/folder.h"
#include "ffdl/store.h"

namespace ffdl::bench {

Status play_store_server(const std::string& folder) {
  FFDL_ASSIGN_OR_RETURN(const auto server, StoreServer::start({.folder = folder}));
  wait_for_the_end();
  return {};
}

Result<std::unique_ptr<StoreFolder>> StoreFolder::start() {
  FFDL_ASSIGN_OR_RETURN(const std::string path, make_folder());
  auto folder = std::unique_ptr<StoreFolder>(new StoreFolder(path));
  FFDL_ASSIGN_OR_RETURN(folder->server_, Resident::start_self({"--role", "server", path}));
  FFDL_RETURN_IF_ERROR(folder->server_->ask("").status());
  return folder;
}

StoreFolder::~StoreFolder() {
  server_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ffdl::bench
