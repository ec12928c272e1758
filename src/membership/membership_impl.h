#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "ffdl/membership.h"
#include "membership/decide_world.h"
#include "membership/keys.h"
#include "membership/sightings.h"

namespace ffdl {

// The task keeps the lease, looks when something changed, and leads if it is its turn. The calls of
// the class read what it saw, and write the record of the world themselves.
class Membership::Impl {
 public:
  Impl(Store& store, Runtime& runtime, Member self, const MembershipOptions& options);
  ~Impl();

  // Becomes a candidate and starts the task.
  Status start();

  const Member& self() const { return self_; }
  World world() const;
  bool is_leader() const;
  bool is_candidate(const Member& member) const;
  Status standing() const;
  Result<World> wait_world_after(uint64_t generation, Time deadline);
  Status activate(uint64_t generation, Time deadline);
  Status wait_active(uint64_t generation, Time deadline);
  void report_progress(uint64_t generation, uint64_t step);
  void report_failure(uint64_t generation);
  std::optional<CheckpointPointer> checkpoint() const;
  std::optional<CheckpointPointer> restart_base() const;
  Status publish_checkpoint(const CheckpointPointer& checkpoint, Time deadline);
  void ask_to_leave();
  bool may_leave() const;
  Status leave(Time deadline);

 private:
  using WorldRecord = membership::WorldRecord;
  // What the calls of the user read.
  struct View {
    WorldRecord record{};  // the newest seen
    Revision revision = 0;
    bool leads = false;
    bool is_needed = true;
    std::vector<Member> candidates{};
  };
  // What a candidate's record says beside who it is.
  struct Wishes {
    bool leaving = false;
    uint64_t failed_generation = 0;

    bool operator==(const Wishes&) const = default;
  };
  // What to put in the record's place; none: it is as it should be.
  using Change = std::function<Result<std::optional<WorldRecord>>(const WorldRecord&)>;

  // --- the task ---
  void run(const StopToken& stop);
  Status turn();
  Status find_predecessor();
  Status take_incarnation();
  Status enter();
  Status beat();
  Status tell_wishes();
  Status tell_progress();
  Status look();
  Status lead();
  Status write_world(const WorldRecord& next);
  Status put_candidate(LeaseId lease);
  bool is_needed() const;
  bool is_replaced() const;

  // --- shared ---
  void note_record(const WorldRecord& record, Revision revision);
  // Notes the record of that entry, which is parsed unless it is the newest that was seen.
  Result<WorldRecord> read_record(const Entry& entry);
  void note_renewal(Time start);
  // Ends this life, if nothing ended it before.
  void end(Status why) const;
  void wake() const;
  void pause(Time deadline);
  // Errors: those of `change`; kNotFound (there is no world), kTimeout.
  Status change_world(std::string_view doing, Time deadline, const Change& change);
  template <class Done>
  Status wait_for(std::string_view doing, Time deadline, Done&& done);

  Store& store_;
  Runtime& runtime_;
  Member self_;  // its incarnation is fixed before there is a second thread
  std::optional<Member> takes_over_from_;  // so is this
  const MembershipOptions options_;
  const membership::Keys keys_;

  // Of the task, and of start() before it.
  LeaseId lease_ = kNoLease;
  bool has_lapsed_ = false;  // others may have counted this member as absent
  Time next_beat_{};
  bool must_look_ = true;
  Revision seen_ = 0;
  Time again_ = kNoDeadline;
  membership::Sightings sightings_;
  Wishes told_wishes_{};
  membership::Progress told_progress_{};
  std::string reason_;

  mutable base::Mutex mutex_;
  View view_ FFDL_GUARDED_BY(mutex_);
  Wishes wishes_ FFDL_GUARDED_BY(mutex_){};
  Time renewed_ FFDL_GUARDED_BY(mutex_){};
  membership::Progress progress_ FFDL_GUARDED_BY(mutex_){};
  mutable Status over_ FFDL_GUARDED_BY(mutex_);
  // Shared, as whoever sets an event does it without the mutex; who waits may have left by then.
  std::set<std::shared_ptr<Event>> waiters_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> task_ FFDL_GUARDED_BY(mutex_);
};

}  // namespace ffdl
