#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// A small, linearizable key-value store that the members of a job share. It has keys with
// revisions, leases, and one call that waits for a change. It is for control records, not data.
namespace ffdl {

// The number of a change of a store. It grows with each change. 0: no change; an empty store is at
// revision 1.
using Revision = uint64_t;

// The id of a lease. A key that was put under a lease is removed when the lease ends. 0: no lease.
using LeaseId = uint64_t;
inline constexpr LeaseId kNoLease = 0;

struct Entry {
  std::string key;
  std::string value;
  Revision revision = 0;  // of the change that put this value
  LeaseId lease = kNoLease;

  bool operator==(const Entry&) const = default;
};

// The interface of all back ends. tests/conformance checks that all behave in the same way.
// Threads: all methods from any thread.
// Blocks: wait_change until its deadline; the others at most for the back end's limit of one
//         operation (StoreOptions::operation_timeout).
// Errors: kInvalidArgument (a key or value is too large, or the lease is impossible),
//         kUnavailable (the back end does not answer; nothing happened),
//         kTimeout (the back end does not answer; whether a change took effect is unknown),
//         kExhausted (the store is full), kCorrupt (the bytes are not those of a store),
//         kCancelled (this process was forked after its parent opened a TCP or etcd store),
//         and the errors named at the methods.
class FFDL_API Store {
 public:
  virtual ~Store() = default;

  // Reads an entry. Errors: kNotFound.
  virtual Result<Entry> get(std::string_view key) = 0;
  // Returns all entries whose keys begin with `prefix`, sorted by key, as they were at one instant.
  virtual Result<std::vector<Entry>> list(std::string_view prefix) = 0;
  // Puts a value. Errors: kNotFound (the lease has ended).
  virtual Result<Revision> put(std::string_view key, std::string_view value,
                               LeaseId lease = kNoLease) = 0;
  // Puts the value only if the key's revision is `expected`; 0: only if the key is absent.
  // Errors: kConflict (the revision differs; nothing happened), kNotFound (the lease has ended).
  virtual Result<Revision> compare_and_put(std::string_view key, Revision expected,
                                           std::string_view value, LeaseId lease = kNoLease) = 0;
  // Removes the key. Returns ok also if the key was absent.
  virtual Status remove(std::string_view key) = 0;

  // Waits until a key under `prefix` has changed after revision `after`: put, removed, or removed
  // with its lease. Returns the store's newest revision. A later list() sees at least that
  // revision. Pass it to the next wait, so that no change is missed. With `after` = 0 it returns at
  // once. It may also return without a change. Errors: kTimeout.
  virtual Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) = 0;

  // Grants a lease. It ends `ttl` after the grant or the last keep_alive(), or a little later. It
  // ends sooner only by end_lease(), or if the back end detects that the lease's owner is gone. A
  // TCP server ends it when the connection of this Store closes, unless
  // StoreOptions::leases_outlive_connection is set. In etcd `ttl` is rounded up to whole seconds,
  // at least 2 unless etcd's election timeout is shorter than its default.
  virtual Result<LeaseId> grant_lease(Duration ttl) = 0;
  // Renews a lease. Errors: kNotFound (it has ended; its keys are removed).
  virtual Status keep_alive(LeaseId lease) = 0;
  // Ends a lease now. Returns ok also if the lease had ended before.
  virtual Status end_lease(LeaseId lease) = 0;

  // Returns the IP address from which this host reached the store when it was opened. Members on
  // other hosts usually reach this host at that address. Empty if the store is not on a network, or
  // on loopback.
  virtual std::string local_address() const { return {}; }
};

struct StoreOptions {
  Duration operation_timeout = std::chrono::seconds(5);  // of one call, except wait_change
  std::string secret{};  // of the server, or of an etcd user; empty: the secret of the folder
  // Lets leases that this Store grants end by time only. For keys that must survive a restart of
  // this process, or a short break of the network.
  bool leases_outlive_connection = false;
};

// Opens the store at a URL:
//   mem://            in the memory of this object: for the threads of one process, and for tests
//   file:///a/folder  for the processes of one host; creates the folder if it is absent
//   tcp://host:port   the StoreServer at this address
//   tcp:///a/folder   the server of that folder on this host. If no server runs, one of the
//                     processes that open the store becomes the server, in a background thread. If
//                     a server dies, a call in progress is repeated, and takes effect once.
//   etcd://host:port[,host:port]...[?certificates=/a/folder]   an etcd 3.4 or newer, by any of its
//                     members. With a folder, over TLS: ca.pem has the authority of etcd's
//                     certificate, client.pem the client's certificate, and client-key.pem its key.
//                     If an etcd member dies, a change in progress may return kTimeout. Leases end
//                     by time alone. etcd://USER@host:port logs in as that user, with the secret as
//                     password. Then the client's files are optional, and the folder is required
//                     beyond loopback.
// Creates a folder with mode 0700. Refuses a folder that another user owns, may write to or can
// replace. `runtime` must outlive the store.
// Errors: kInvalidArgument (no such URL; the secret or protocol version differs from the server's,
// reported for a folder after the operation timeout; a folder of another user), kExhausted (after
// that timeout), kUnavailable (the folder cannot be used, the server does not answer), kCorrupt,
// kUnimplemented (etcd:// in a build without it).
FFDL_API Result<std::unique_ptr<Store>> open_store(std::string_view url, Runtime& runtime,
                                                   const StoreOptions& options = {});

struct StoreServerOptions {
  // The folder of the store's log; created if it is absent. Processes of this host open the store
  // as "tcp://<folder>".
  std::string folder{};
  // The address to listen on, as host:port; port 0 is any free port.
  std::string address = "127.0.0.1:0";
  // The secret that clients must prove to know. Required if other machines reach the address. It
  // protects only the start of a connection: nothing is encrypted.
  std::string secret{};
  // Creates a secret of 32 random bytes if `secret` is empty and the store has none, in the
  // folder's file "secret". Only the folder's owner can read the file. Processes of this host that
  // open the store by the folder read it. An address for other machines still requires `secret`.
  bool makes_secret = false;
};

// Serves a store to the processes of a job, on this host and on others (open_store, "tcp://...").
// A change is in the log before its call is answered, so no death of a process loses it. The log is
// not synced to the disk for each change, so the death of the host may lose the last changes. The
// next server restores the store from the log: revisions keep growing, a call in progress takes
// effect once, and all leases have a full term left. If this server dies, a process of the same
// host that has opened the store by its folder becomes the next server.
// Threads: all methods from any thread. The server runs on its own thread.
class FFDL_API StoreServer {
 public:
  // Starts a server. `runtime` must outlive the server.
  // Errors: kInvalidArgument (the address is malformed, is not this host's, or is reachable from
  // outside without a secret; the store was created with another secret), kConflict (another
  // process serves the folder), kCorrupt (the log was not written by a server; a torn end is cut
  // off and logged), kUnavailable (the folder or the port cannot be used), kExhausted (the disk is
  // full).
  static Result<std::unique_ptr<StoreServer>> start(const StoreServerOptions& options,
                                                    Runtime& runtime = system_runtime());
  // Stops the server. Clients that know the folder continue with another server.
  ~StoreServer();

  // Returns the URL for open_store: "tcp://127.0.0.1:40123".
  std::string url() const;
  // Returns the secret for open_store() with that URL, from the options or the folder; empty: none.
  std::string secret() const;

 private:
  class Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
