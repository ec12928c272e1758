#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/local/state.h"
#include "wire/store.pb.h"

namespace ffdl::store {

// The state of a server: a State, whose leases belong to clients, and the answers to those. Values
// and `now` in, values out; the server adds sockets and a file.
// Only apply() changes what must outlast the server. It has the same effect on an equal Service at
// any time, so a log of its records is the store. So time does not end a lease in here; the server
// finds the leases that are over and logs that.
// Threads: one at a time.
class Service {
 public:
  // Applies a record; `now` begins the term of a lease. Errors: kCorrupt (a record that no server
  // writes).
  Result<wire::Reply> apply(const wire::Record& record, Time now);

  // Runs a call that changes nothing that must outlast the server.
  wire::Reply look(const wire::Request& request, Time now);
  static bool changes_the_store(const wire::Request& request);
  // Returns the reply to a put that would fail: it need not be in the log.
  std::optional<wire::Reply> failure_of(const wire::Request& request) const;
  // Returns the reply to the first copy of the call, if that has changed the store.
  std::optional<wire::Reply> answered(uint64_t client, const wire::Request& request) const;

  bool has_changed(std::string_view prefix, Revision after);
  Revision revision() const { return state_.revision(); }
  bool knows(uint64_t client) const { return clients_.contains(client); }
  // Zero and empty if nothing was applied yet.
  uint64_t store() const { return created_.store(); }
  const std::string& verifier() const { return created_.verifier(); }
  uint64_t last_host() const { return serving_.host(); }

  std::vector<LeaseId> leases_over(Time now) const;
  Time next_end() const;  // kNoDeadline if there is no lease
  // Returns the leases that end with the client's connection.
  std::vector<LeaseId> leases_of(uint64_t client) const;
  // Gives every lease its full term, when a server begins.
  void extend_leases(Time now);
  // Ends each lease later, by `by`.
  void prolong_leases(Duration by);

  // Returns a record that makes an empty Service equal to this one.
  wire::Record snapshot() const;

 private:
  struct OwnedLease {
    uint64_t client = 0;
    bool outlives_connection = false;
    Duration ttl{};
    Time ends{};
  };
  struct Client {
    std::map<uint64_t, uint64_t> answers;  // sequence of a call, and the number in its reply
    uint64_t heard = 0;  // of the last record from it, in counts of records; unique
  };

  Client& hear(uint64_t client);
  void forget_oldest();
  void remember(Client& client, uint64_t sequence, uint64_t number);
  void end(LeaseId lease);
  void begin_serving(const wire::Serving& serving);
  wire::Reply call(const wire::Called& called, Time now);
  Status restore(const wire::Snapshot& snapshot, Time now);

  State state_;
  wire::Created created_;
  wire::Serving serving_;
  std::map<LeaseId, OwnedLease> leases_;
  std::map<uint64_t, Client> clients_;
  std::map<uint64_t, uint64_t> by_heard_;  // clients by `heard`, the oldest first
  size_t answers_ = 0;                     // of all clients
  uint64_t records_ = 0;
};

// Converts a failure to a reply.
wire::Reply reply_with(const Status& status);

}  // namespace ffdl::store
