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

// The contents of a store and the effects of its calls: values and `now` in, values out. Back ends
// add sharing, waiting and durability. The calls of Store and has_changed() first end the leases
// that are over at `now`.
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

  // Returns whether a wait_change of `prefix` after `after` is over. Only the newest changes are
  // kept, so the answer about older ones is true.
  bool has_changed(std::string_view prefix, Revision after, Time now);

  // Checks a put; with `expected`, a compare_and_put. Ends no leases.
  Status may_put(std::string_view key, std::optional<Revision> expected, std::string_view value,
                 LeaseId lease) const;
  // Checks what needs no store: the sizes, and that the key is UTF-8.
  static Status check_entry(std::string_view key, std::string_view value);

  // Returns when the next lease ends by itself; kNoDeadline if there is none.
  Time next_end() const;
  Revision revision() const { return revision_; }

  // Advances the revision as `count` changes would, for a store that may have lost its last
  // changes. So no revision is used twice.
  void skip_revisions(uint64_t count);

  // Renews every lease for its full term, after a store was away: its members could not renew.
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
  Time none_ends_before_ = Time::min();  // so that most calls need not check all leases
  size_t bytes_ = 0;                     // of all entries
  std::deque<Change> changes_;           // the newest ones, oldest first
  Revision revision_ = 1;                // an empty store has 1, so that a wait can begin there
  LeaseId last_lease_ = kNoLease;
};

}  // namespace ffdl::store
