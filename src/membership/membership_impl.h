#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "ffdl/membership.h"
#include "membership/decide_world.h"
#include "membership/keys.h"
#include "membership/life_clock.h"
#include "membership/membership_observer.h"
#include "membership/round_trips.h"

namespace ffdl {

// Implements Membership. Its task keeps the lease, reads the store when something changed, and
// leads when it is the leader. The methods read the task's view, and write the record of the world
// themselves.
class Membership::Impl {
 public:
  Impl(Store& store, Runtime& runtime, Member self, const MembershipOptions& options);
  ~Impl();

  // Becomes a candidate and starts the task. Errors: kCancelled (its launcher has ended), those of
  // check_record().
  Status start();
  // Begins the life after this one, which ended at the fence.
  Result<std::unique_ptr<Impl>> rejoin(const std::optional<StateLabel>& state,
                                       const std::function<bool()>& is_wanted);

  const Member& self() const { return self_; }
  World world() const;
  bool is_leader() const;
  bool is_candidate(const Member& member) const;
  bool has_gone_on(const Member& member, uint64_t generation) const;
  void note_missed(const std::vector<Member>& members, uint64_t generation) FFDL_REQUIRES(mutex_);
  // Blocks: after a standstill, until the store has decided about this life, or did not answer.
  Status life_status() const;
  bool is_fenced() const;
  Time awake_time() const;
  Result<World> wait_world_after(uint64_t generation, Time deadline);
  Status activate(uint64_t generation, Time deadline, const StateLabel& base,
                  std::string_view holder);
  Status wait_active(uint64_t generation, Time deadline);
  void report_progress(uint64_t generation, uint64_t step);
  void report_state(const std::optional<StateLabel>& state);
  void report_failure(uint64_t generation, const std::vector<Member>& unreached);
  void report_connected(const World& world);
  std::optional<CheckpointPointer> checkpoint() const;
  std::optional<CheckpointPointer> restart_base() const;
  Result<std::optional<StateLabel>> label_at_beginning(
      const World& world, const std::optional<StateLabel>& state) const;
  uint64_t continued_lineage(const StateLabel& base) const;
  Status publish_checkpoint(const CheckpointPointer& checkpoint, Time deadline);
  Status complete(const StateLabel& end, Time deadline);
  std::optional<StateLabel> completion() const;
  bool is_state_held() const;
  void ask_to_leave();
  bool may_leave() const;
  Status leave(Time deadline);
  bool has_ended_by_leaving() const;

 private:
  using WorldRecord = membership::WorldRecord;
  // The last incarnation that was taken under an id, and the revision of that entry; 0: none.
  struct Taken {
    uint64_t incarnation = 0;
    Revision revision = 0;
  };
  // The newest world in which a life of a member was seen without a lease.
  struct Missed {
    uint64_t incarnation = 0;
    uint64_t generation = 0;
  };
  // The view that the user's calls read.
  struct View {
    WorldRecord record{};  // the newest seen
    Revision revision = 0;
    bool leads = false;
    bool is_needed = true;
    Time state_held_until = kNoDeadline;
    std::vector<Member> candidates{};
    std::map<std::string, membership::Advance> advances{};  // keyed by id
    std::map<std::string, Missed> missed{};                 // keyed by id
  };
  // A renewal of the lease that has begun.
  struct Renewal {
    Time start{};             // as Runtime::boottime()
    uint64_t generation = 0;  // the newest known
  };
  // The part of a candidate's record beside its identity.
  struct Wishes {
    bool leaving = false;
    uint64_t failed_generation = 0;
    std::vector<membership::Unreached> unreached{};

    bool operator==(const Wishes&) const = default;
  };
  // Returns the record to write instead; none: no change is needed.
  using Change = std::function<Result<std::optional<WorldRecord>>(const WorldRecord&)>;

  // --- the tasks ---
  void run(const StopToken& stop);
  // Looks at the clock.
  void watch_clock(const StopToken& stop);
  Status turn();
  Status begin_life();
  Status begin_next_life(const Member& earlier, const std::function<bool()>& is_wanted);
  Status check_return(const Member& earlier) const;
  Status take_next_incarnation();
  Result<Taken> read_incarnation(const std::string& id) const;
  Status find_predecessor();
  Status take_incarnation();
  Status enter_first();
  Status enter();
  // Asks the store, before others can see this member again, whether it may return.
  Status check_return_to() const;
  Result<std::optional<WorldRecord>> return_to(const WorldRecord& record) const;
  // Warns once in this life if the lease is too short for the round trips to the store.
  void judge_lease(bool has_ended);
  Status beat();
  Status tell_wishes();
  Status read_reached();
  void note_reached(const membership::Progress& progress);
  // Finds the absent lives for which a lineage waits.
  Status read_absent_lives();
  // Reports the deaths of those whose processes ran on this host and have ended.
  Status prove_deaths();
  Status tell_progress();
  Status read_progress();
  // Reads the members' keys.
  Status observe();
  Status look();
  // Errors: kInvalidArgument (the members have another version, or recover in another way).
  Status check_record() const;
  Status check_replaced() const;
  Status replaced_by(uint64_t incarnation) const;
  bool is_anyone_of_it_here() const;
  Status lead();
  // Returns when a leader judges the others again after it stood still, as they may have, too.
  std::optional<Time> end_of_patience() const;
  void note_standstill();
  Status read_states();
  void warn_of_left_out(const membership::WorldDecision& decision);
  Status check_lost_state();
  Status write_world(const WorldRecord& next);
  Status put_candidate(LeaseId lease);
  Time state_held_until() const;

  // --- shared ---
  void note_record(const WorldRecord& record, Revision revision);
  // Parses the entry's record, unless it is the newest one seen, and notes it.
  Result<WorldRecord> read_record(const Entry& entry);
  Renewal begin_renewal() const;
  void note_renewal(const Renewal& renewal);
  // As life_status(), but returns ok at once while the store is asked.
  Status life_so_far() const;
  void end_at_fence(std::string_view why) const;
  // Does the part of leave() that writes nothing to the store.
  Status end_by_leaving(Time deadline);
  // Ends this life, unless it has ended already.
  void end(Status why, bool is_fence = false) const;
  void wake() const;
  void pause(Time deadline);
  // `life`: checks this life before each attempt. Errors: those of `change` and of `life`;
  // kNotFound (there is no world), kTimeout.
  Status change_world(std::string_view doing, Time deadline, const Change& change,
                      Status (Impl::*life)() const = &Impl::life_status);
  template <class Done>
  Status wait_for(std::string_view doing, Time deadline, Done&& done);

  Store& store_;
  Runtime& runtime_;
  Member self_;  // its incarnation is fixed before there is a second thread
  std::optional<Member> takes_over_from_;  // fixed as early as self_
  const MembershipOptions options_;
  const membership::Keys keys_;
  const std::string process_mark_;

  // Used by the task, and by start() before it.
  uint64_t tried_incarnation_ = 0;  // after the fence; the store may not have answered
  LeaseId lease_ = kNoLease;
  bool has_lapsed_ = false;  // others may have counted this member as absent
  Time next_beat_{};
  bool must_look_ = true;
  Revision seen_ = 0;
  Time again_ = kNoDeadline;
  membership::MembershipObserver sightings_;
  membership::RoundTrips round_trips_;
  std::string advice_;  // about the lease; empty: the lease suits
  Wishes told_wishes_{};
  membership::Progress told_progress_{};
  membership::Reached reached_{};
  std::string reason_;
  std::vector<Member> left_out_;  // already named in a warning
  std::vector<membership::AbsentLife> absent_lives_;
  Duration forgiven_{};           // the standstills that count against no other member
  const std::unique_ptr<Event> clock_over_;

  mutable base::Mutex mutex_;
  View view_ FFDL_GUARDED_BY(mutex_);
  Wishes wishes_ FFDL_GUARDED_BY(mutex_){};
  mutable membership::LifeClock clock_ FFDL_GUARDED_BY(mutex_);
  uint64_t renewed_generation_ FFDL_GUARDED_BY(mutex_) = 0;  // known at the last renewal
  membership::Progress progress_ FFDL_GUARDED_BY(mutex_){};
  mutable Status over_ FFDL_GUARDED_BY(mutex_);
  mutable bool is_fenced_ FFDL_GUARDED_BY(mutex_) = false;  // the fence is why it is over
  // Shared, since events are set without the mutex; the waiting caller may have returned by then.
  mutable std::set<std::shared_ptr<Event>> waiters_ FFDL_GUARDED_BY(mutex_);
  bool must_tell_departure_ FFDL_GUARDED_BY(mutex_) = false;  // leave() has ended this life
  std::unique_ptr<Task> task_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> clock_task_;  // set before there is a second thread
};

}  // namespace ffdl
