#pragma once

#include <memory>
#include <string>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"

namespace ffdl {

struct StoreServerOptions {
  // Of the store's log; made if it is absent. Whoever opens "tcp://<folder>" finds the server by
  // it.
  std::string folder{};
  // Where to listen, as host:port; 0 is any free port.
  std::string address = "127.0.0.1:0";
  // Who knows it may use the store. Needed when other machines reach the address. Only the
  // beginning of a connection is protected by it: nothing is encrypted.
  std::string secret{};
};

// Serves a store to the processes of a job, of this host and of others (open_store, "tcp://...").
// What a call has changed is in the log before the call is answered, so no death of a process loses
// it; the log is not forced to the disk each time, so the death of the host may lose the last
// changes. A next server makes the same store of the log: revisions go on growing, a call that was
// on its way is done once, and all leases have a full term before them. On the same host any
// process that has opened the store by its folder becomes the next server when this one dies.
// Threads: all methods from any thread; it has one of its own.
class FFDL_API StoreServer {
 public:
  // `runtime` must outlive the server.
  // Errors: kInvalidArgument (the address is none, is not this host's, or is reached by others and
  // there is no secret; the store was made with another secret), kConflict (another process serves
  // the folder), kCorrupt (the log is not what a server wrote; a torn end is cut off and logged),
  // kUnavailable (the folder or the port cannot be used), kExhausted (the disk is full).
  static Result<std::unique_ptr<StoreServer>> start(const StoreServerOptions& options,
                                                    Runtime& runtime = system_runtime());
  // Ends it. Clients that know the folder go on with another server.
  ~StoreServer();

  // For open_store: "tcp://127.0.0.1:40123".
  std::string url() const;

 private:
  class Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
