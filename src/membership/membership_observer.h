#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ffdl/store.h"
#include "membership/keys.h"
#include "membership/membership_records.h"

namespace ffdl::membership {

// The number of worlds in which two members may fail to connect before the others continue without
// one of them.
inline constexpr uint64_t kUnreachedWorldsFree = 3;

struct Candidate {
  Member member;
  bool leaving = false;
  bool stalled = false;  // makes no progress while others do
  uint64_t failed_generation = 0;
  Revision joined = 0;  // revision of its key: orders candidates by arrival
  Time since{};         // first seen in this life
  std::optional<Member> takes_over_from{};
  std::vector<Unreached> unreached{};             // members that this one could not connect to
  std::map<std::string, Time> unreached_since{};  // id -> when that count was first seen
  bool left_out = false;                          // decided: it and another cannot connect

  bool is_willing() const { return !leaving && !stalled && !left_out; }
  // Returns the number of worlds in which this candidate could not connect to `other`.
  uint64_t worlds_unreached(const Member& other) const;
  // Returns true if this candidate is to take the place of that life of `other`.
  bool replaces(const Member& other) const {
    return takes_over_from && takes_over_from->id == other.id &&
           takes_over_from->incarnation >= other.incarnation && member.id != other.id;
  }
};

// The newest generation in which a life of a member works, and the time when that was first seen.
struct Advance {
  uint64_t incarnation = 0;
  uint64_t generation = 0;
  Time since{};
};

// The complete state that the last known life of a member holds.
struct Holding {
  uint64_t incarnation = 0;
  StateLabel label{};
  std::optional<Time> absent{};  // that life is no candidate -> first seen so
};

// The facts from which decide_world decides, beside the record.
struct Facts {
  std::vector<Candidate> candidates;     // holders of valid leases, ordered by id
  std::map<std::string, uint64_t> dead;  // id -> its last incarnation whose death is proved
  std::map<std::string, uint64_t> left;  // id -> its last incarnation that has left voluntarily
  std::map<std::string, Time> absent;    // state holders that are not candidates -> first seen so
  // Read while no state holder is a candidate; keyed by id.
  std::map<std::string, Holding> states;
  Time formed{};                         // the time when the record's generation was first seen
  uint64_t failed_worlds = 0;            // before the record's, since a world was active

  const Candidate* find(const Member& member) const;
  // Returns the candidate that takes the place of `member`: a willing one, or one that has done so,
  // since it is a state holder and `member` is not. Of several it returns the one that came first.
  const Candidate* find_successor(const Member& member,
                                  const std::vector<Member>& state_holders) const;
  bool is_dead(const Member& member) const;
  bool has_left(const Member& member) const;
  // Returns the label of the member's state where the next lineage begins; none: it holds none.
  std::optional<StateLabel> state_of(const Member& member, const WorldRecord& record) const;
  // Returns true if the member is gone, stalled or left out, and has not announced that it leaves.
  bool is_lost(const Member& member) const;
};

// Returns the candidate with the newest state from which the next lineage may begin. Returns null
// if a state holder is a candidate, or no candidate has a state as new as the checkpoint's.
const Candidate* find_newest_holder(const WorldRecord& record, const Facts& facts);

// Returns the step that the lineage of the last active world had reached, as its members reported
// it in this or an earlier life. `entries` is every entry under Keys::all_progress().
uint64_t steps_made(const WorldRecord& record, std::span<const Entry> entries);

// A life that has no lease, and the mark of its process.
struct AbsentLife {
  Member member{};
  std::string process{};
};

// Turns snapshots of the store into facts: the state of the job's keys as one member has seen it,
// with times. It ignores a record that does not parse, except the world's.
// Threads: one at a time.
class MembershipObserver {
 public:
  explicit MembershipObserver(const Keys& keys) : keys_(keys) {}

  // Reads a snapshot: `entries` is every entry under Keys::prefix(), and `now` a time after the
  // read. A member that is absent here was absent then at the latest. An absence is counted within
  // one revision of the record, since a state holder that returns writes the record. Errors:
  // kCorrupt (the world's record).
  Status update(std::span<const Entry> entries, Time now);
  // Updates stalled candidates; `entries` is every entry under Keys::all_progress().
  void update_progress(std::span<const Entry> entries, Time now, Duration step_timeout);
  // Lets the time in which this process stood still count against no candidate.
  void forgive(Duration standstill, Time now);
  // Returns true if no state holder is a candidate, though a world was active. The next lineage
  // then begins, or has begun, with the newest state that a member holds.
  bool lacks_state_holders() const;
  // Updates the states that members hold from the same entries; none: there are state holders.
  void update_states(std::span<const Entry> entries, Time now);
  // Returns the lives for which the next lineage waits, and which have a mark of their process,
  // from the same entries; none: there are state holders.
  std::vector<AbsentLife> absent_lives(std::span<const Entry> entries) const;
  // Updates advances() from the same entries; does not depend on update_progress().
  void update_advances(std::span<const Entry> entries, Time now);
  const std::map<std::string, Advance>& advances() const { return advances_; }  // keyed by id

  const Facts& facts() const { return facts_; }
  // Returns true if a present or possible next world needs that member, which has asked to leave or
  // has a successor. One snapshot must show both the request and the members that stay: before the
  // request, others may rely on the member. In a job that is done, a candidate that cannot connect
  // to the member does not need it. `holds_state`: the member holds a complete state, which counts
  // if there are no state holders.
  bool needs(const Member& member, bool holds_state) const;
  const std::optional<WorldRecord>& record() const { return record_; }
  Revision record_revision() const { return record_revision_; }  // 0: there is none

  struct Leader {
    Member member;
    LeaseId lease = kNoLease;
  };
  const std::optional<Leader>& leader() const { return leader_; }

 private:
  struct Known {
    Revision revision = 0;
    Candidate candidate;
  };
  struct Lag {
    Revision revision = 0;  // revision of the entry that was read
    Progress progress;
    std::optional<Time> since;  // behind another, and unchanged
  };

  void see_candidate(std::string_view id, const Entry& entry, Time now,
                     std::map<std::string, Known>& seen);
  bool may_want(const Candidate& other, const Candidate& leaving) const;
  // Returns true if the member's successor has the state, and no present or possible next world has
  // the member.
  bool is_replaced(const Member& member) const;
  void count_absences(Time now);
  // Counts the world before `record` if it failed before it was active.
  void count_failures(const std::optional<WorldRecord>& record);
  Lag read_lag(const Member& member, const Entry* entry) const;

  const Keys keys_;
  Facts facts_;
  std::optional<WorldRecord> record_;
  Revision record_revision_ = 0;
  std::optional<Leader> leader_;
  Revision leader_revision_ = 0;
  std::map<std::string, Known> known_;
  std::map<std::string, Lag> lags_;
  std::map<std::string, Advance> advances_;
};

}  // namespace ffdl::membership
