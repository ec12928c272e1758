#pragma once

#include <memory>
#include <string>

#include "base/fork_private_fd.h"
#include "ffdl/runtime.h"
#include "store/tcp/log_file.h"
#include "store/tcp/service.h"

namespace ffdl::store {

// A Service and the log in a folder from which it can be restored. While it lives no other process
// has the folder.
// Threads: one at a time.
class DurableService {
 public:
  struct Options {
    std::string folder{};
    std::string secret{};
    uint64_t host = 0;  // the client that contains this server; 0: none
    // Without a secret: a store that never had one gets one of its own (folder_secret.h).
    bool makes_secret = false;
  };
  // Restores the service. Without a secret it uses the folder's, if there is one. All leases begin
  // a full term, except those that end with the connection of the last server's own client. That
  // client died with the server.
  // Errors: kConflict (another process has the folder), kCorrupt, kInvalidArgument (the store was
  //         made with another secret), kUnavailable, kExhausted (the disk is full).
  static Result<std::unique_ptr<DurableService>> open(const Options& options, Runtime& runtime);

  // Writes the record to the log, then applies it.
  // Errors: kExhausted, kUnavailable; nothing has happened then.
  Result<wire::Reply> commit(const wire::Record& record);
  Service& service() { return service_; }
  const std::string& secret() const { return secret_; }

 private:
  struct Opened {
    base::ForkPrivateFd lock;
    LogFile log;
    Service service;
  };
  DurableService(Opened opened, Runtime& runtime);
  Status begin(const Options& options);
  Result<std::string> choose_secret(const Options& options);
  Status create(uint64_t store);
  bool was_made_with(const std::string& secret) const;
  void compact_if_large();

  Runtime& runtime_;
  base::ForkPrivateFd lock_;
  LogFile log_;
  Service service_;
  std::string secret_;
  size_t compact_at_ = 0;
};

}  // namespace ffdl::store
