#pragma once

#include <chrono>
#include <cstdint>
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

// The members of a job, agreed on by all and numbered. docs/internals/protocol-step.md defines the
// rules.
namespace ffdl {

// The place of a published checkpoint, and the state that it holds.
struct CheckpointPointer {
  uint64_t lineage = 0;
  uint64_t generation = 0;
  uint64_t step = 0;
  std::string manifest{};
  uint64_t hash = 0;

  bool operator==(const CheckpointPointer&) const = default;
};

// The end of a job's training: the step after which all members reported that it is done, and their
// state at that step.
struct Completion {
  uint64_t lineage = 0;
  uint64_t generation = 0;  // of the world that agreed on it
  uint64_t step = 0;
  uint64_t hash = 0;  // of the state

  bool operator==(const Completion&) const = default;
};

// The state from which the remaining members continue after an unannounced death or hang.
enum class Recovery {
  kForward,     // the newest step that any of them holds: nothing is lost, no disk is read
  kConsistent,  // the newest published checkpoint, at all of them, as after the death of all;
                // without a checkpoint, the initial state
};

// The action of a job whose state is lost: no member holds it, and no checkpoint was published.
enum class OnLostState {
  kRestart,  // starts again from the initial state, with a warning
  kFail,     // ends its members with kCancelled; the job's record is unchanged
};

// The options of one member. docs/reference/timeouts.md explains each time and the dependencies.
// join() refuses times whose order cannot work.
struct MembershipOptions {
  std::string job = "job";                             // unique within one store
  Recovery recovery = Recovery::kForward;              // the same at all members of a job
  OnLostState on_lost_state = OnLostState::kRestart;   // the same at all members of a job
  int min_workers = 1;                                 // with fewer, no world is formed
  int max_workers = 256;                               // with more, the latest wait
  Duration heartbeat = std::chrono::milliseconds(75);  // between two renewals of the lease
  Duration lease = std::chrono::milliseconds(300);     // a member silent this long is suspected
  Duration gather = std::chrono::milliseconds(100);    // a newcomer waits this long for others
  Duration step_timeout = std::chrono::minutes(5);     // a member behind this long is suspected
  Duration fence_after = std::chrono::seconds(30);     // without renewal this long: drop the state
  Duration fence_margin = std::chrono::seconds(2);     // for the drift between two clocks
  // The id of a member that this one replaces, in the life that it has at this join. Empty: none.
  // The next world has this member in its place. Once that world is active the other one may leave,
  // though it never asked to. If this member dies before, the other one stays. If the other one is
  // gone, this member is an ordinary newcomer.
  std::string takes_over_from{};
};

// One life of one member. It begins with join() and ends with leave(), with the fence, or with the
// destructor, which the others observe as a death.
//
// The leader forms a world, its members connect and equalise states, and one of them activates it:
//   world = wait_world_after(generation)         FORMING; settle the old world, connect this one,
//                                                compare labels, heal
//   ... all members are equal, after a barrier
//   activate(world.generation)
//   wait_active(world.generation)                before the first collective may return ok
// A newer world may appear at any of these points; the old one is then over.
//
// Threads: all methods from any thread. One task of the runtime renews the lease and leads.
// Owns: its lease. `store` and `runtime` must outlive it.
// Blocks: activate, wait_active, wait_world_after, publish_checkpoint and leave until their
//         deadline; the destructor until the task's present call to the store returns.
// Errors: kCancelled once this life is over (left, fenced, or replaced by a newer incarnation; the
//         message names the reason): drop the state; joining again is allowed. kCorrupt: the record
//         of the world cannot be read. The methods name further ones.
class FFDL_API Membership {
 public:
  // Takes the next incarnation of `self.id` (self.incarnation is ignored) and becomes a candidate.
  // Errors: kInvalidArgument, and those of Store. If the job's recovery differs from these options,
  // this life ends with kInvalidArgument as soon as the job's record is read.
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
  // Returns true if this incarnation of a member works in `generation` no more: it has reported,
  // for two leases, that it works in a newer one, or its lease had ended at an observation and the
  // newest world is without it. The former is known only while a newer generation forms than the
  // one that this member works in.
  bool has_gone_on(const Member& member, uint64_t generation) const;
  // Returns an error when this life is over. Call it before each contribution and after each
  // result: it also ends this life when the lease could not be renewed for `fence_after`.
  Status life_status() const;

  // Waits for a world newer than `generation`; this member may be absent from it. Errors: kTimeout.
  Result<World> wait_world_after(uint64_t generation, Time deadline);
  // Makes the members of this world its state holders. Call it when all of them have equal states.
  // Errors: kWorldChanged (a newer one is forming), kTimeout.
  Status activate(uint64_t generation, Time deadline);
  // Waits until this world is, or was, active. Errors: kWorldChanged (it never will be), kTimeout.
  Status wait_active(uint64_t generation, Time deadline);

  // Reports the step that this member has begun in that generation. Step 0: it has taken note of
  // the world, which need not contain it. A member that stays behind others for step_timeout is
  // suspected until it reports again. Costs nothing: heartbeats carry it.
  void report_progress(uint64_t generation, uint64_t step);
  // Reports that the members of this world cannot work together though all may live: a connection
  // broke, or a deadline passed. Requests a newer world, of the same members if nothing else has
  // changed. `unreached`: the members that this one could not connect to. After three such worlds
  // one of the two is left out, at growing intervals, until a world with both was connected.
  void report_failure(uint64_t generation, const std::vector<Member>& unreached = {});
  // Reports that this member could connect to all members of that world.
  void report_connected(const World& world);

  // Returns the checkpoint from which a restarted job would continue. restart_base() returns the
  // one from which the present lineage started. None: the initial state.
  std::optional<CheckpointPointer> checkpoint() const;
  std::optional<CheckpointPointer> restart_base() const;
  // Publishes a checkpoint. Its state must be settled: a later step of the same world returned ok.
  // Errors: kWorldChanged (the job restarted since), kConflict (there is a newer one), kTimeout.
  Status publish_checkpoint(const CheckpointPointer& checkpoint, Time deadline);

  // Records that the training is done: all members of a world reported so after the same step, and
  // hold its state. After that the job starts no lineage; worlds only hand this state over.
  // Errors: kWorldChanged (a later world became active since, or the job restarted), kInternal (it
  // ended with another state), kTimeout.
  Status complete(const Completion& end, Time deadline);
  // Returns none while the job trains.
  std::optional<Completion> completion() const;
  // Returns true if a member that is present, or may still come back, holds the job's state.
  bool is_state_held() const;

  // Requests a world without this member. The member continues as before until may_leave(), because
  // others may need its state.
  void ask_to_leave();
  // Returns true if it has asked to leave, and no present or future world needs this member or no
  // other member stays in the job. Also true if another member has taken over from it.
  bool may_leave() const;
  // Asks to leave, waits until it may, and ends this life. The other members learn this reliably.
  // Errors: kTimeout (it may not leave yet).
  Status leave(Time deadline);
  // Returns true if leave() has ended this life but the store does not know yet: call it again.
  bool has_ended_by_leaving() const;

 private:
  class Impl;
  explicit Membership(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// Reports that this incarnation of a member, and all before, are dead: their process has ended.
// For launchers: a lease that ended is no proof of death. Errors: those of Store.
FFDL_API Status report_death(Store& store, std::string_view job, const Member& member);

// Clears the end of a job that is done. Its next members train it again from its initial state, in
// a new lineage. Does nothing if the job is not done. Errors: kCorrupt, and those of Store.
FFDL_API Status begin_again(Store& store, std::string_view job);

}  // namespace ffdl

// The status of a job, read from its records in the store, for processes that are not members.
namespace ffdl {

struct MemberStatus {
  Member member{};
  int rank = -1;            // in the newest world; -1: it is not in it
  bool is_alive = false;    // its lease has not ended
  bool is_leaving = false;  // it has asked to leave
  uint64_t generation = 0;  // of the step that it has begun last
  uint64_t step = 0;
};

struct JobStatus {
  World world{};                   // the newest (rank is -1); generation 0: none was formed yet
  uint64_t active_generation = 0;  // of the last active world
  uint64_t term = 0;               // number of leaders so far
  std::optional<Member> leader{};
  std::optional<CheckpointPointer> checkpoint{};  // the newest
  std::optional<Completion> completion{};         // set once the training of its sessions is done
  // The job's parameter servers whose training is done: name -> last version.
  std::map<std::string, uint64_t> ended_servers{};
  // The members of the world, by rank; then the other members that have joined, by id.
  std::vector<MemberStatus> members{};
};

// Records that the training of this parameter server of the job is done, with its last version. A
// later learner then has nothing to do. begin_again() removes the record. Call it before the server
// stops, while no other process can create a server of that name.
// Errors: kInvalidArgument (no name), and those of Store.
FFDL_API Status record_server_end(Store& store, std::string_view job, std::string_view name,
                                  uint64_t version);

// Reads the status of a job and changes nothing. If no member has joined, the generation is 0.
// Errors: kCorrupt (the record of the world cannot be read), and those of Store.
FFDL_API Result<JobStatus> read_job(Store& store, std::string_view job);

// Returns the last incarnation of a member, 0 if it had none. After its process has ended, and
// before the next one starts under the same id, pass it to report_death().
// Errors: kCorrupt, and those of Store.
FFDL_API Result<uint64_t> last_incarnation(Store& store, std::string_view job, std::string_view id);

}  // namespace ffdl
