#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/store.h"

namespace ffdl::store {

struct Lease {
  Duration ttl{};
  Time ends{};
};

struct Change {
  Revision revision = 0;
  std::string key;
};

// What a store holds and how its calls change it: values and `now` in, values out. Back ends add
// sharing, waiting and lasting.
// Every method first ends the leases that are over at `now`.
// Threads: one at a time.
class State {
 public:
  Result<Entry> get(std::string_view key, Time now);
  std::vector<Entry> list(std::string_view prefix, Time now);
  Result<Revision> put(std::string_view key, std::string_view value, LeaseId lease, Time now);
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease, Time now);
  void remove(std::string_view key, Time now);
  Result<LeaseId> grant_lease(Duration ttl, Time now);
  Status keep_alive(LeaseId lease, Time now);
  void end_lease(LeaseId lease, Time now);

  // Whether a wait_change of `prefix` after `after` is over. Only the newest changes are kept: one
  // who asks about older ones is told "yes".
  bool has_changed(std::string_view prefix, Revision after, Time now);

  // Whether a put would succeed; with `expected`, a compare_and_put. Ends no leases.
  Status may_put(std::string_view key, std::optional<Revision> expected, std::string_view value,
                 LeaseId lease) const;
  // The part of it that needs no store.
  static Status check_sizes(std::string_view key, std::string_view value);

  // When the next lease ends by itself; kNoDeadline when there is none.
  Time next_end() const;
  Revision revision() const { return revision_; }

  // As if so many changes had been made, for a store that may have forgotten its last ones: no
  // revision is given twice.
  void skip_revisions(uint64_t count);

  // Gives every lease its full term again, for a store that was away: its members could not renew.
  void extend_leases(Time now);

 private:
  friend struct StateFile;  // writes and reads all of it

  static size_t bytes_of(std::string_view key, std::string_view value);
  void end_old_leases(Time now);
  void drop_keys_of(LeaseId lease);
  Revision note_change(std::string_view key);
  Revision note_put(std::string_view key, std::string_view value, LeaseId lease);

  std::map<std::string, Entry, std::less<>> entries_;
  std::map<LeaseId, Lease> leases_;
  Time none_ends_before_ = Time::min();  // so that most calls need not look at all leases
  size_t bytes_ = 0;                     // of all entries
  std::deque<Change> changes_;           // the newest ones, oldest first
  Revision revision_ = 1;                // an empty store has one, so that a wait can begin there
  LeaseId last_lease_ = kNoLease;
};

}  // namespace ffdl::store
