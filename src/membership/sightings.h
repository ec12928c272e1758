#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ffdl/store.h"
#include "membership/keys.h"
#include "membership/records.h"

namespace ffdl::membership {

struct Candidate {
  Member member;
  bool leaving = false;
  bool stalled = false;  // stands still behind others
  uint64_t failed_generation = 0;
  Revision joined = 0;  // of its key: says who came first
  Time since{};         // first seen in this life
  std::optional<Member> takes_over_from{};

  bool is_willing() const { return !leaving && !stalled; }
  // Whether it is to stand in the place of that life of a member.
  bool replaces(const Member& other) const {
    return takes_over_from && takes_over_from->id == other.id &&
           takes_over_from->incarnation >= other.incarnation && member.id != other.id;
  }
};

// What decide_world decides from, beside the record.
struct Facts {
  std::vector<Candidate> candidates;     // whose leases have not ended, by id
  std::map<std::string, uint64_t> dead;  // id -> its last incarnation whose death is proved
  std::map<std::string, uint64_t> left;  // id -> its last incarnation that has left of its own
  std::map<std::string, Time> absent;    // carriers that are no candidates -> first seen so

  const Candidate* find(const Member& member) const;
  // Who is to stand in its place and can, or has done so, as it is a carrier and the other is not;
  // of several the first that came.
  const Candidate* find_successor(const Member& member, const std::vector<Member>& carriers) const;
  bool is_dead(const Member& member) const;
  // It is gone, or stands still, and has not said that it goes.
  bool is_lost(const Member& member) const;
};

// What one member has seen under the job's keys, and since when: snapshots of the store in, facts
// out. A record that does not parse is left out, but for the world's.
// Threads: one at a time.
class Sightings {
 public:
  explicit Sightings(const Keys& keys) : keys_(keys) {}

  // `entries` is all under Keys::prefix(), `now` a time after it was read: what is absent here was
  // absent then at the latest. An absence is counted within one revision of the record, as a
  // carrier that comes back writes it. Errors: kCorrupt (the world's record).
  Status update(std::span<const Entry> entries, Time now);
  // `entries` is all under Keys::all_progress().
  void update_progress(std::span<const Entry> entries, Time now, Duration step_timeout);

  const Facts& facts() const { return facts_; }
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
    Revision revision = 0;  // of the entry that was read
    Progress progress;
    std::optional<Time> since;  // behind another, and unchanged
  };

  void see_candidate(std::string_view id, const Entry& entry, Time now,
                     std::map<std::string, Known>& seen);
  void count_absences(Time now);
  Lag read_lag(const Member& member, const Entry* entry) const;

  const Keys keys_;
  Facts facts_;
  std::optional<WorldRecord> record_;
  Revision record_revision_ = 0;
  std::optional<Leader> leader_;
  Revision leader_revision_ = 0;
  std::map<std::string, Known> known_;
  std::map<std::string, Lag> lags_;
};

}  // namespace ffdl::membership
