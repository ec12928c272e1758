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

// A small, linearizable key-value memory that the members of a job share. It has keys with
// revisions, leases, and one way to wait for a change. It holds control records, not data.
namespace ffdl {

// The number of a change of a store. Each change has a larger one than all before it. 0 means none:
// an empty store is at 1.
using Revision = uint64_t;

// A lease. A key that was put under a lease is removed when the lease ends. 0: no lease.
using LeaseId = uint64_t;
inline constexpr LeaseId kNoLease = 0;

struct Entry {
  std::string key;
  std::string value;
  Revision revision = 0;  // of the change that put this value
  LeaseId lease = kNoLease;

  bool operator==(const Entry&) const = default;
};

// The interface of all back ends. tests/conformance checks that they behave alike.
// Threads: all methods from any thread.
// Blocks: wait_change until its deadline; the others at most for the back end's limit of one
//         operation (StoreOptions::operation_timeout).
// Errors: kInvalidArgument (a key or value is too large, or the lease is impossible),
//         kUnavailable (the back end does not answer; nothing happened),
//         kTimeout (the back end does not answer; whether a change took effect is unknown),
//         kExhausted (the store is full), kCorrupt (the bytes are not those of a store),
//         kCancelled (this process is a fork of the one that opened a store over TCP or in etcd),
//         and the errors named at the methods.
class FFDL_API Store {
 public:
  virtual ~Store() = default;

  // Reads an entry. Errors: kNotFound.
  virtual Result<Entry> get(std::string_view key) = 0;
  // Returns all entries whose keys begin with `prefix`, by key, as they were at one instant.
  virtual Result<std::vector<Entry>> list(std::string_view prefix) = 0;
  // Puts a value. Errors: kNotFound (the lease has ended).
  virtual Result<Revision> put(std::string_view key, std::string_view value,
                               LeaseId lease = kNoLease) = 0;
  // Puts the value only if the key's revision is `expected`; 0: only if the key is absent.
  // Errors: kConflict (the revision differs; nothing happened), kNotFound (the lease has ended).
  virtual Result<Revision> compare_and_put(std::string_view key, Revision expected,
                                           std::string_view value, LeaseId lease = kNoLease) = 0;
  // Removes the key. Returns ok also when the key was absent.
  virtual Status remove(std::string_view key) = 0;

  // Waits until a key under `prefix` has changed after revision `after`: put, removed, or ended
  // with its lease. Returns the store's newest revision. A later list() sees at least that
  // revision, and the next wait starts from it, so no change is missed. With `after` = 0 it returns
  // at once. It may return without a change, never later than one. Errors: kTimeout.
  virtual Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) = 0;

  // Grants a lease that ends `ttl` after it was granted or last kept alive, or a little later. It
  // ends sooner only by end_lease, or when the back end detects that its holder is gone. Over TCP
  // that is when the connection of the granting store closes, unless
  // StoreOptions::leases_outlive_connection. In etcd `ttl` is rounded up to whole seconds, at least
  // 2 unless etcd's election timeout is shorter than its default.
  virtual Result<LeaseId> grant_lease(Duration ttl) = 0;
  // Renews a lease. Errors: kNotFound (it has ended; its keys are removed).
  virtual Status keep_alive(LeaseId lease) = 0;
  // Ends a lease now. Returns ok also when it had ended before.
  virtual Status end_lease(LeaseId lease) = 0;

  // Returns the IP address from which this host reached the store when it was opened. Members on
  // other hosts that use the same store usually reach this host there. Empty for a store that is
  // not on a network, or on loopback.
  virtual std::string local_address() const { return {}; }
};

struct StoreOptions {
  Duration operation_timeout = std::chrono::seconds(5);  // of one call, except wait_change
  std::string secret{};  // of the job, as given to its server; empty: tcp:///a/folder has its own
  // Leases granted by this store end by time only. For keys that must survive a restart of this
  // process, or a short break of the network.
  bool leases_outlive_connection = false;
};

// Opens the store at a URL:
//   mem://            exists in this object alone: for the threads of one process, and for tests
//   file:///a/folder  for the processes of one host; creates the folder if it is absent
//   tcp://host:port   a StoreServer (store.h) at this address
//   tcp:///a/folder   the server of that folder on this host. If none runs, one of the processes
//                     that opened it becomes the server, in a thread beside its work. A call that
//                     was in progress when a server died is repeated, and takes effect once.
//   etcd://host:port[,host:port]...[?certificates=/a/folder]   an etcd 3.4 or newer, by any of its
//                     members. With a folder over TLS: the etcd must have a certificate
//                     of the authority in its ca.pem, and sees that in client.pem, whose key is in
//                     client-key.pem. If a member dies, a call in progress returns kTimeout. Leases
//                     end by time alone. With etcd://USER@host:port as that user, whose password is
//                     the secret. Then the folder need not have the client's files, and beyond the
//                     loopback it must be given.
// Creates a folder with mode 0700. Refuses a folder that another user owns, may write to or can
// replace. `runtime` must outlive the store.
// Errors: kInvalidArgument (no such URL; the secret or protocol version differs from the server's,
// reported for a folder after the operation timeout; a folder of another user), kExhausted (after
// that timeout), kUnavailable (the folder cannot be used, the server does not answer), kCorrupt,
// kUnimplemented (etcd:// in a build without it).
FFDL_API Result<std::unique_ptr<Store>> open_store(std::string_view url, Runtime& runtime,
                                                   const StoreOptions& options = {});

struct StoreServerOptions {
  // The folder of the store's log; created if it is absent. A process that opens "tcp://<folder>"
  // finds the server by it.
  std::string folder{};
  // The address to listen on, as host:port; port 0 is any free port.
  std::string address = "127.0.0.1:0";
  // The secret that clients must prove to know. Required when other machines reach the address. It
  // protects only the start of a connection: nothing is encrypted.
  std::string secret{};
  // Creates a secret if `secret` is empty: a new store in the folder gets 32 random bytes of its
  // own. They are stored in the folder's file "secret", which only its owner can read. A process
  // that opens the store by the folder reads that file.
  bool makes_secret = false;
};

// Serves a store to the processes of a job, on this host and on others (open_store, "tcp://...").
// A change is in the log before its call is answered, so no death of a process loses it. The log is
// not synced to the disk for each change, so the death of the host may lose the last changes. The
// next server restores the store from the log: revisions keep growing, a call in progress takes
// effect once, and all leases have a full term left. On the same host any process that has opened
// the store by its folder becomes the next server when this one dies.
// Threads: all methods from any thread; it has one of its own.
class FFDL_API StoreServer {
 public:
  // Starts a server. `runtime` must outlive it.
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
  // Returns the secret for open_store by that URL, of the options or of the folder; empty: none.
  std::string secret() const;

 private:
  class Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
