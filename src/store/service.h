#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/state.h"
#include "wire/store.pb.h"

namespace ffdl::store {

// What a server knows: a State, whose leases belong to clients, and what it answered them. Values
// and `now` in, values out; the server adds sockets and a file.
// All that must outlast the server is changed by apply(), which does the same to an equal Service
// whenever it is called: a log of its records is the store. So time does not end a lease in here;
// the server looks whose time is over and logs that.
// Threads: one at a time.
class Service {
 public:
  // `now` begins the term of a lease. Errors: kCorrupt (a record that no server writes).
  Result<wire::Reply> apply(const wire::Record& record, Time now);

  // Calls that change nothing that must outlast the server.
  wire::Reply look(const wire::Request& request, Time now);
  static bool changes_the_store(const wire::Request& request);
  // The reply to a put that would fail: it need not be in the log.
  std::optional<wire::Reply> failure_of(const wire::Request& request) const;
  // What the call was answered when it came for the first time, if it has changed the store then.
  std::optional<wire::Reply> answered(uint64_t client, const wire::Request& request) const;

  bool has_changed(std::string_view prefix, Revision after);
  Revision revision() const { return state_.revision(); }
  bool knows(uint64_t client) const { return clients_.contains(client); }
  // Zero and empty where nothing was applied yet.
  uint64_t store() const { return created_.store(); }
  const std::string& verifier() const { return created_.verifier(); }
  uint64_t last_host() const { return serving_.host(); }

  std::vector<LeaseId> leases_over(Time now) const;
  Time next_end() const;  // kNoDeadline when there is no lease
  // Those that end with the client's connection.
  std::vector<LeaseId> leases_of(uint64_t client) const;
  // A server that begins gives every lease its full term.
  void extend_leases(Time now);
  // Each ends so much later.
  void prolong_leases(Duration by);

  // A record that makes an empty Service equal to this one.
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
    uint64_t heard = 0;                    // when, in counts of records
  };

  void hear(uint64_t client);
  void end(LeaseId lease);
  void begin_serving(const wire::Serving& serving);
  wire::Reply call(const wire::Called& called, Time now);
  Status restore(const wire::Snapshot& snapshot, Time now);

  State state_;
  wire::Created created_;
  wire::Serving serving_;
  std::map<LeaseId, OwnedLease> leases_;
  std::map<uint64_t, Client> clients_;
  uint64_t records_ = 0;
};

// A failure as a reply.
wire::Reply reply_with(const Status& status);

}  // namespace ffdl::store
