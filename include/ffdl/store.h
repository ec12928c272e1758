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

// A small, linearizable memory that the members of a job share: keys with revisions, leases, and
// one way to wait for a change. It is for control records, not for data.
namespace ffdl {

// Counts the changes of a store. Each change has a larger one than all before. 0 is none: an empty
// store is at 1.
using Revision = uint64_t;

// A key put under a lease is gone when the lease ends. 0: no lease.
using LeaseId = uint64_t;
inline constexpr LeaseId kNoLease = 0;

struct Entry {
  std::string key;
  std::string value;
  Revision revision = 0;  // of the change that put this value
  LeaseId lease = kNoLease;

  bool operator==(const Entry&) const = default;
};

// Every back end means the same by it; tests/conformance holds them to that.
// Threads: all methods from any thread.
// Blocks: wait_change until its deadline; the others only as long as the back end's own limit for
//         one operation (StoreOptions::operation_timeout).
// Errors: kInvalidArgument (a key or value beyond its size, a lease that cannot be), kUnavailable
//         (the back end does not answer; nothing happened), kTimeout (it does not answer, and
//         whether a change took effect is unknown), kExhausted (the store is full), kCorrupt (its
//         bytes are not a store's), kCancelled (this process is a fork of the one that opened a
//         store over TCP or in etcd), and those named at the methods.
class FFDL_API Store {
 public:
  virtual ~Store() = default;

  // Errors: kNotFound.
  virtual Result<Entry> get(std::string_view key) = 0;
  // All entries whose keys begin with `prefix`, by key, as they were at one instant.
  virtual Result<std::vector<Entry>> list(std::string_view prefix) = 0;
  // Errors: kNotFound (the lease has ended).
  virtual Result<Revision> put(std::string_view key, std::string_view value,
                               LeaseId lease = kNoLease) = 0;
  // Puts only if the key's revision is `expected`; 0: only if the key is absent.
  // Errors: kConflict (it is another; nothing happened), kNotFound (the lease has ended).
  virtual Result<Revision> compare_and_put(std::string_view key, Revision expected,
                                           std::string_view value, LeaseId lease = kNoLease) = 0;
  // Afterwards the key is absent, also when it was before.
  virtual Status remove(std::string_view key) = 0;

  // Waits until something under `prefix` has changed after revision `after`: put, removed, or ended
  // with its lease. Returns the store's newest revision: list() then sees at least that, and the
  // next wait begins there, so that no change is missed. `after` = 0 returns at once. It may
  // return without a change, never later than one. Errors: kTimeout.
  virtual Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) = 0;

  // A lease ends `ttl` after it was granted or last kept alive, or a little later; sooner only by
  // end_lease, or where the back end sees that its holder is gone: over TCP when the connection of
  // the store that granted it closes, unless StoreOptions::leases_outlive_connection. In etcd it is
  // whole seconds, at least 2 unless etcd's election timeout is shorter than its default.
  virtual Result<LeaseId> grant_lease(Duration ttl) = 0;
  // Errors: kNotFound (it has ended; its keys are gone).
  virtual Status keep_alive(LeaseId lease) = 0;
  // Ends it now. Afterwards it is no more, also when it was not before.
  virtual Status end_lease(LeaseId lease) = 0;
};

struct StoreOptions {
  Duration operation_timeout = std::chrono::seconds(5);  // of one call, but for wait_change
  std::string secret{};  // of the job; the server of a tcp:// store must have the same
  // Leases granted by this store end at their time only: for what shall survive a restart of this
  // process, or a network that is cut for a moment.
  bool leases_outlive_connection = false;
};

// The store at a URL:
//   mem://            in this object alone: for the threads of one process, and for tests
//   file:///a/folder  for the processes of one host; the folder is made if it is absent
//   tcp://host:port   what a StoreServer (store_server.h) serves there
//   tcp:///a/folder   what is served from that folder of this host; when nobody serves it, one of
//                     those who have opened it does so, in a thread beside its work. A call that
//                     was on its way when a server died is repeated, and takes effect once.
//   etcd://host:port[,host:port]...   an etcd 3.4 or newer, by any of its members; no secret. What
//                     was on its way when a member died is kTimeout; leases end by time alone.
// `runtime` must outlive the store.
// Errors: kInvalidArgument (no such URL; another secret or protocol version than the server's),
// kUnavailable (the folder cannot be used, the server does not answer), kCorrupt, kUnimplemented
// (etcd:// in a build without it).
FFDL_API Result<std::unique_ptr<Store>> open_store(std::string_view url, Runtime& runtime,
                                                   const StoreOptions& options = {});

}  // namespace ffdl
