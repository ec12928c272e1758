#pragma once

#include <memory>
#include <string>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "launch/launcher.h"

namespace ffdl::launch {

struct EtcdServerOptions {
  std::string program = "etcd";  // searched in PATH
  std::string name{};            // of this member of the cluster
  // A folder of this user alone, with the files of net/certificate_files.h. The data and the log of
  // the etcd are in it, too.
  std::string folder{};
  std::string client_address{};  // HOST:PORT at which clients and the other members reach it
  std::string peer_address{};
  std::string cluster{};  // "NAME=https://HOST:PORT,..." of all members, by their peer addresses
  std::string token{};    // differs from that of each other cluster
};

// Keeps one etcd running on this host: starts it again when it ends. Clients and other members need
// a certificate of the authority in the folder. The etcd is killed when this process ends, however
// that happens.
// Threads: one at a time; it has a task of its own and those of a Launcher.
class FFDL_API EtcdServer {
 public:
  // Returns kNotFound, with what to install, if this host has no such program. Starts it for its
  // version, with its output in the folder. Other errors: those of Launcher::start.
  static Status find(const std::string& program, const std::string& folder);
  // Starts an etcd, and does not wait until it answers. Errors: those of Launcher::start.
  static Result<std::unique_ptr<EtcdServer>> start(EtcdServerOptions options);
  // Kills the etcd and waits for its end. The folder remains.
  ~EtcdServer();
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  // Returns the last line of the log; empty: there is none.
  std::string last_line() const;

 private:
  explicit EtcdServer(EtcdServerOptions options);
  Status begin();
  void keep(const StopToken& stop);

  const EtcdServerOptions options_;
  const WorkerCommand command_;
  const std::unique_ptr<Event> exited_;
  std::unique_ptr<Launcher> launcher_;
  std::unique_ptr<Task> keeper_;
};

}  // namespace ffdl::launch
