#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

// Who takes part in a job, agreed by all and numbered. docs/protocol-step.md says by which rules.
namespace ffdl {

// Where a published checkpoint is, and which state it holds.
struct CheckpointPointer {
  uint64_t lineage = 0;
  uint64_t generation = 0;
  uint64_t step = 0;
  std::string manifest{};
  uint64_t hash = 0;

  bool operator==(const CheckpointPointer&) const = default;
};

// What those who are left go on from when a member dies, or hangs, that has not said that it goes.
enum class Recovery {
  kForward,     // the newest step that any of them holds: nothing is lost, and nobody reads a disk
  kConsistent,  // the newest checkpoint that was published, all of them, as after the death of all;
                // where there is none the initial state
};

// docs/timeouts.md says what each time is for and how they depend on each other. join() refuses
// times whose order cannot work.
struct MembershipOptions {
  std::string job = "job";                             // jobs of one store have different names
  Recovery recovery = Recovery::kForward;              // the same at all members of a job
  int min_workers = 1;                                 // with fewer no world is formed
  int max_workers = 256;                               // with more the latest wait
  Duration heartbeat = std::chrono::milliseconds(75);  // between two renewals of the lease
  Duration lease = std::chrono::milliseconds(300);     // who did not renew that long is suspected
  Duration gather = std::chrono::milliseconds(100);    // a newcomer waits that long for others
  Duration step_timeout = std::chrono::minutes(5);     // who lags behind that long is suspected
  Duration fence_after = std::chrono::seconds(30);  // who could not renew that long drops its state
  Duration fence_margin = std::chrono::seconds(2);  // for clocks that run unequally fast
  // Empty: nobody. A member, in the life that it has when this one joins: the next world has this
  // one in its place, and once it is active that one may leave though it never asked to. If this
  // one dies before, that one stays. If that one is gone this is a newcomer as any other.
  std::string takes_over_from{};
};

// One life of one member: from join() to leave(), to its end by the fence, or to its destructor,
// which the others see as a death.
//
// A world is formed by the leader, brought together by its members and activated by one of them:
//   world = wait_world_after(generation)         FORMING; settle the old world, connect this one,
//                                                compare labels, heal
//   ... all members are equal, after a barrier
//   activate(world.generation)
//   wait_active(world.generation)                before the first collective may return ok
// A newer world may come at any of these points; the old one is then over.
//
// Threads: all methods from any thread. One task of the runtime renews the lease and leads.
// Owns: its lease. `store` and `runtime` must outlive it.
// Blocks: activate, wait_active, wait_world_after, publish_checkpoint and leave until their
//         deadline; the destructor until the task's present call to the store returns.
// Errors: kCancelled once this life is over (left, fenced, or a newer incarnation came; the message
//         says which): drop the state, and join again if you like. kCorrupt: the record of the
//         world cannot be read. Others at the methods.
class FFDL_API Membership {
 public:
  // Takes the next incarnation of `self.id` (self.incarnation is not looked at) and becomes a
  // candidate. Errors: kInvalidArgument, and those of Store. Where the job has another recovery
  // than these options this life ends with kInvalidArgument as soon as the job's record is read.
  static Result<std::unique_ptr<Membership>> join(Store& store, Runtime& runtime, Member self,
                                                  const MembershipOptions& options = {});
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  const Member& self() const;
  // The newest that this member knows; generation 0 while there is none.
  World world() const;
  bool is_leader() const;
  // Whether that life of a member was there at the last look: its lease had not ended.
  bool is_candidate(const Member& member) const;
  // Not ok when this life is over. To be asked before each contribution and after each result: it
  // also ends the life of one who could not renew for `fence_after`.
  Status standing() const;

  // A world newer than `generation`; this member need not be in it. Errors: kTimeout.
  Result<World> wait_world_after(uint64_t generation, Time deadline);
  // All members of this world have equal states: makes them its carriers.
  // Errors: kWorldChanged (a newer one is forming), kTimeout.
  Status activate(uint64_t generation, Time deadline);
  // Ok once this world is, or was, active. Errors: kWorldChanged (it never will be), kTimeout.
  Status wait_active(uint64_t generation, Time deadline);

  // What this member has begun: the step of that generation; 0 when it has taken note of a world,
  // also of one that it is not in. Who stands still behind others for step_timeout is suspected
  // until it reports again. Costs nothing: heartbeats carry it.
  void report_progress(uint64_t generation, uint64_t step);
  // The members of this world cannot work together though all may live: a connection broke, a
  // deadline passed. Asks for a newer one, of the same members if nothing else has changed.
  void report_failure(uint64_t generation);

  // The checkpoint that a job that begins anew would begin from, and the one that the present
  // lineage began from. None: the initial state.
  std::optional<CheckpointPointer> checkpoint() const;
  std::optional<CheckpointPointer> restart_base() const;
  // The state must be settled: a later step of the same world has returned ok.
  // Errors: kWorldChanged (the job began anew since), kConflict (a newer one is there), kTimeout.
  Status publish_checkpoint(const CheckpointPointer& checkpoint, Time deadline);

  // Asks for a world without this member. It goes on as before until may_leave(): others may need
  // its state.
  void ask_to_leave();
  // It has asked, and no world that is or may come needs this member, or nobody stays in the job.
  // Or it was not asked: another has taken over from it.
  bool may_leave() const;
  // Asks, waits until it may, and ends this life, of which the others learn for certain.
  // Errors: kTimeout (it may not yet).
  Status leave(Time deadline);

 private:
  class Impl;
  explicit Membership(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// Tells a job that this incarnation of a member, and all before, are dead: their process has ended.
// For launchers: a lease that ended is no proof. Errors: those of Store.
FFDL_API Status report_death(Store& store, std::string_view job, const Member& member);

}  // namespace ffdl
