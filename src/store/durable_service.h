#pragma once

#include <memory>
#include <string>

#include "base/fork_private_fd.h"
#include "ffdl/runtime.h"
#include "store/log_file.h"
#include "store/service.h"

namespace ffdl::store {

// A Service and the log in a folder that it can be made again from. As long as it lives no other
// process has the folder.
// Threads: one at a time.
class DurableService {
 public:
  struct Options {
    std::string folder{};
    std::string secret{};
    uint64_t host = 0;  // the client that has this server inside; 0: none
  };
  // All leases have a full term before them, but those that end with the connection of the client
  // that had the last server inside: it died with it.
  // Errors: kConflict (another process has the folder), kCorrupt, kInvalidArgument (the store was
  // made with another secret), kUnavailable, kExhausted (the disk is full).
  static Result<std::unique_ptr<DurableService>> open(const Options& options, Runtime& runtime);

  // Writes the record to the log, then applies it.
  // Errors: kExhausted, kUnavailable; nothing has happened then.
  Result<wire::Reply> commit(const wire::Record& record);
  Service& service() { return service_; }

 private:
  struct Opened {
    base::ForkPrivateFd lock;
    LogFile log;
    Service service;
  };
  DurableService(Opened opened, Runtime& runtime);
  Status begin(const Options& options);
  void compact_if_large();

  Runtime& runtime_;
  base::ForkPrivateFd lock_;
  LogFile log_;
  Service service_;
  size_t compact_at_ = 0;
};

}  // namespace ffdl::store
