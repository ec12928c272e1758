#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

// The members of a job and their ranks, on which all members agree.
// docs/internals/protocol-step.md defines the rules.
namespace ffdl {

// The label of a state: how far the training had come with it. Of two states of a job the one with
// the larger label is the newer one.
struct StateLabel {
  uint64_t lineage = 0;
  uint64_t generation = 0;  // of the world in which the last step was made
  uint64_t step = 0;
  uint64_t hash = 0;  // of the state; 0: unknown

  auto operator<=>(const StateLabel&) const = default;
};

// The place of a published checkpoint, and the label of its state.
struct CheckpointPointer {
  uint64_t lineage = 0;
  uint64_t generation = 0;
  uint64_t step = 0;
  std::string manifest{};
  uint64_t hash = 0;

  StateLabel label() const { return {lineage, generation, step}; }
  bool operator==(const CheckpointPointer&) const = default;
};

// The state from which the remaining members continue after an unannounced death or hang.
enum class Recovery {
  kForward,     // the newest state that any of them has: nothing is lost, no disk is read
  kConsistent,  // the newest published checkpoint, as after the death of all members;
                // without a checkpoint, the initial state
};

// The action of a job whose state is lost: no member has it, and no checkpoint was published.
enum class OnLostState {
  kRestart,  // starts again from the initial state, with a warning
  kFail,     // ends its members with kCancelled; the job's record is unchanged
};

// The options of one member. docs/reference/timeouts.md explains each time and the limits between
// times. join() refuses times that break these limits.
struct MembershipOptions {
  std::string job = "job";                             // unique within one store
  Recovery recovery = Recovery::kForward;              // the same at all members of a job
  OnLostState on_lost_state = OnLostState::kRestart;   // the same at all members of a job
  int min_workers = 1;                                 // with fewer, no world is formed
  int max_workers = 256;                               // with more, the last to join wait
  Duration heartbeat = std::chrono::milliseconds(75);  // between two renewals of the lease
  Duration lease = std::chrono::milliseconds(300);     // a member silent this long is suspected
  Duration gather = std::chrono::milliseconds(100);    // a newcomer waits this long for more
  Duration step_timeout = std::chrono::minutes(5);     // a member behind this long is suspected
  Duration fence_after = std::chrono::seconds(30);     // without renewal this long: the life ends
  Duration fence_margin = std::chrono::seconds(2);     // for the drift between two clocks
  // The id of an old member that this member replaces; empty: none. Only the old member's present
  // life is replaced. The next world has this member in the old member's place. Once that world is
  // active, the old member may leave, though it never asked to. If this member dies before, the old
  // member stays. If the old member is gone, this member is an ordinary newcomer.
  std::string takes_over_from{};
};

// One life of one member. It begins with join(). It ends with leave(), at the fence, or with the
// destructor, which other members observe as a death.
//
// The leader forms a world. Its members connect and equalise states, and one of them activates it:
//   world = wait_world_after(generation)         FORMING; settle the old world, connect the new
//                                                world, compare labels, heal
//   ... all members are equal, after a barrier
//   activate(world.generation)
//   wait_active(world.generation)                before the first collective may return ok
// A newer world may appear at any of these points. The older world is then over.
//
// Threads: all methods from any thread. One task of the runtime renews the lease and, as leader,
//          forms worlds; another one looks at the clock.
// Owns: its lease. `store` and `runtime` must outlive this object.
// Blocks: activate, wait_active, wait_world_after, publish_checkpoint and leave until their
//         deadline; life_status and is_fenced after a standstill; the destructor until the task's
//         present call to the store returns.
// Errors: kCancelled once this life is over (left, fenced, reported dead, or replaced by a newer
//         incarnation; the message names the reason). Nothing of it may act any more. Joining again
//         is allowed, after the fence with the state: rejoin().
//         kCorrupt: the record of the world cannot be read. The methods name further errors.
class FFDL_API Membership {
 public:
  // Begins the next incarnation of `self.id`, as a candidate. self.incarnation is ignored. A member
  // that is refused writes nothing, so that the others do not notice it.
  // Errors: kInvalidArgument (also: the living members use another version of the protocol, or the
  // job's recovery differs from these options), kCorrupt, and those of Store. If that becomes true
  // later, this life ends with the same error.
  static Result<std::unique_ptr<Membership>> join(Store& store, Runtime& runtime, Member self,
                                                  const MembershipOptions& options = {});
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  const Member& self() const;
  // Returns the newest world that this member knows; generation 0: there is none yet.
  World world() const;
  bool is_leader() const;
  // Returns true if this incarnation of a member had an unexpired lease at the last observation.
  bool is_candidate(const Member& member) const;
  // Returns true if this incarnation of a member no longer works in `generation`, for one of two
  // reasons. It has reported a newer generation for two leases. Or its lease had ended at an
  // observation, and the newest world is without it. If this member is not the leader, it knows the
  // first reason only while a newer generation than its own forms.
  bool has_gone_on(const Member& member, uint64_t generation) const;
  // Returns an error if this life is over. Call it before each contribution and after each result:
  // it also ends this life if the lease could not be renewed for `fence_after`. Blocks: if this
  // process or machine stood still at that time, until the store has answered. At most for a fifth
  // of `fence_after`, or for a lease if that is longer.
  Status life_status() const;
  // Returns true if this life ended at the fence.
  bool is_fenced() const;
  // Returns Runtime::boottime() without the time in which this process or machine stood still in
  // this life: the gaps longer than a lease between two looks at that clock.
  Time awake_time() const;
  // Begins the next life of this member, under the next incarnation, after the fence has ended this
  // life. Nothing of this life may act any more, since it is reported dead. `state`: the state that
  // the next life keeps, as in report_state(). Repeats while the store does not answer. Blocks:
  // until `is_wanted` returns false. Errors: kTimeout (it returned false), kCancelled (another
  // process has this id now, another member took over, or the launcher has ended), kInvalidArgument
  // (the fence has not ended this life), and those of join().
  Result<std::unique_ptr<Membership>> rejoin(const std::optional<StateLabel>& state,
                                             const std::function<bool()>& is_wanted);

  // Waits for a world newer than `generation`; this member may be absent from it. Errors: kTimeout.
  Result<World> wait_world_after(uint64_t generation, Time deadline);
  // Makes this world active, and its members the state holders. Call it when all members have equal
  // states. In a world that begins a lineage, `base` is the label that its state had in an earlier
  // lineage, and `holder` the id of the member that had it in memory; empty: no member had it.
  // Errors: kWorldChanged (a newer world forms), kInvalidArgument (not a member), kTimeout.
  Status activate(uint64_t generation, Time deadline, const StateLabel& base = {},
                  std::string_view holder = {});
  // Waits until this is the newest active world. Errors: kWorldChanged (a newer world forms before
  // this one is active, or is active already), kTimeout.
  Status wait_active(uint64_t generation, Time deadline);

  // Reports the step that this member has begun in that generation. Step 0: it has seen the world,
  // possibly without being a member of it. A member that is behind others for step_timeout is
  // suspected until it reports again. The next heartbeat sends the report.
  void report_progress(uint64_t generation, uint64_t step);
  // Reports the complete state that this member holds; none: it holds none, or the initial one. The
  // next heartbeat sends the report. A leader without state holders waits for members that may hold
  // a newer state.
  void report_state(const std::optional<StateLabel>& state);
  // Reports that the members of this world cannot work together, though all may be alive: a
  // connection broke, or a deadline passed. Requests a newer world, of the same members if nothing
  // else has changed. `unreached`: the members to which this member could not connect. If a pair
  // fails in three worlds, one of the two is left out, for growing times, until a world connects
  // both.
  void report_failure(uint64_t generation, const std::vector<Member>& unreached = {});
  // Reports that this member could connect to all members of that world.
  void report_connected(const World& world);

  // Returns the newest checkpoint; none: there is none. restart_base() returns the one that was the
  // newest when the present lineage began. The lineage did not begin from an older state.
  std::optional<CheckpointPointer> checkpoint() const;
  std::optional<CheckpointPointer> restart_base() const;
  // Returns the label under which a complete state of this member is compared in a world that
  // begins a lineage; none: it is void. A state that contains the one with which the last active
  // lineage began counts as one of that lineage. protocol-step.md has the rules. Errors:
  // kWorldChanged (a newer world forms).
  Result<std::optional<StateLabel>> label_at_beginning(
      const World& world, const std::optional<StateLabel>& state) const;
  // Returns the lineage from which one continues that begins with this base in the present world:
  // the one in which the base's last step was made. 0: none.
  uint64_t continued_lineage(const StateLabel& base) const;
  // Publishes a checkpoint. Its state must be stable: a later step of the same world returned ok.
  // Errors: kWorldChanged (the job restarted since), kConflict (a newer one exists), kTimeout.
  Status publish_checkpoint(const CheckpointPointer& checkpoint, Time deadline);

  // Records that the training is done with the state `end`, under the generation of the world whose
  // members agreed on the end, and with its hash. Requires that all members of a world reported
  // this after the same step, and have its state. From then on the job starts no lineage; worlds
  // only copy this state. Errors: kWorldChanged (a later world became active since, or the job
  // restarted), kInternal (the job ended with another state), kTimeout.
  Status complete(const StateLabel& end, Time deadline);
  // Returns the end of the training; none while the job trains.
  std::optional<StateLabel> completion() const;
  // Returns true if a member that is present, or may still return, has the job's state.
  bool is_state_held() const;

  // Requests a world without this member. The member continues as before until may_leave() returns
  // true, because others may need its state.
  void ask_to_leave();
  // Returns true after ask_to_leave() if no present or future world needs this member, or no other
  // member stays in the job. Also true if another member has replaced this member.
  bool may_leave() const;
  // Asks to leave, waits until may_leave() is true, and ends this life. Other members then know
  // that it left and did not die. Errors: kTimeout (may_leave() is false).
  Status leave(Time deadline);
  // Returns true if leave() ended this life but could not write this to the store: call it again.
  bool has_ended_by_leaving() const;

 private:
  class Impl;
  explicit Membership(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// Reports that this incarnation of a member, and all before, are dead: their process has ended.
// For launchers, because the end of a lease does not prove a death. Errors: those of Store.
FFDL_API Status report_death(Store& store, std::string_view job, const Member& member);

// Clears the end of a job that is done. Its next members train it again from its initial state, in
// a new lineage. If the job is not done, only removes the records of record_server_end(). Errors:
// kCorrupt, and those of Store.
FFDL_API Status begin_again(Store& store, std::string_view job);

}  // namespace ffdl

// The status of a job, read from its records in the store, for processes that are not members.
namespace ffdl {

struct MemberStatus {
  Member member{};
  int rank = -1;            // in the newest world; -1: not a member of it
  bool is_alive = false;    // its lease has not ended
  bool is_leaving = false;  // it has asked to leave
  uint64_t generation = 0;  // of the last step that it has begun
  uint64_t step = 0;
};

struct JobStatus {
  World world{};                   // the newest (rank is -1); generation 0: none was formed yet
  uint64_t active_generation = 0;  // of the last active world
  uint64_t term = 0;               // number of leaders so far
  std::optional<Member> leader{};
  std::optional<CheckpointPointer> checkpoint{};  // the newest
  // The state from which the lineage began, by its label in the lineage before, and the member that
  // had it in memory (empty: a checkpoint had it). All 0: the initial state, or no world of the
  // lineage was active yet.
  StateLabel lineage_base{};
  std::string lineage_holder{};
  std::optional<StateLabel> completion{};  // the last state, once the training of sessions is done
  // The job's parameter servers whose training is done: name -> last version.
  std::map<std::string, uint64_t> ended_servers{};
  // The members of the world, by rank; then other members with a valid lease, by id.
  std::vector<MemberStatus> members{};
};

// Records that the training of this parameter server of the job is done, with its last version. A
// later learner then has no work. begin_again() removes the record. Call record_server_end() before
// the server stops, while no other process can create a server of that name.
// Errors: kInvalidArgument (no name), and those of Store.
FFDL_API Status record_server_end(Store& store, std::string_view job, std::string_view name,
                                  uint64_t version);

// Reads the status of a job and changes nothing. If no member has joined, the generation is 0.
// Errors: kCorrupt (the record of the world cannot be read), and those of Store.
FFDL_API Result<JobStatus> read_job(Store& store, std::string_view job);

// Returns the last incarnation of a member, 0 if it had none. Pass it to report_death() after the
// member's process has ended, and before the next process starts under the same id.
// Errors: kCorrupt, and those of Store.
FFDL_API Result<uint64_t> last_incarnation(Store& store, std::string_view job, std::string_view id);

}  // namespace ffdl
