#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "elastic/checkpoint/checkpointer.h"
#include "elastic/session/departure.h"
#include "elastic/session/held_state.h"
#include "elastic/session/life.h"
#include "elastic/session/next_world_connector.h"
#include "elastic/session/rescale.h"
#include "elastic/session/store_task.h"
#include "elastic/session/wait_limit.h"
#include "elastic/step/gradient_exchange.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/session.h"

namespace ffdl::elastic {

// Moves a session from one world to the next: settles the old one, enters the next one that works,
// and brings the state of its members together. Knows the present world and its communicator.
// Threads: the session's thread. Three tasks run beside it: two of the NextWorldConnector, which
// may abort the communicator, and one that sends the state to other members.
// Owns: these tasks, and the communicators of the present and the previous world.
class WorldChange {
 public:
  // The objects that a change of the world uses; they must outlive it.
  struct Parts {
    const SessionOptions& options;
    Runtime& runtime;
    Store& store;
    Life& life;
    HeldState& held;
    GradientExchange& exchange;
    Checkpointer* checkpoints;  // null: there are none
    Departure& departure;
  };
  struct Settings {
    CommunicatorFactory connect;
    uint64_t model = 0;               // a hash of the layout of state and gradients
    bool needs_device_reach = false;  // the gradients are in a GPU's memory
  };
  // The way in which a member entered a world.
  // kLeft: it has left the job instead.
  // kFinished: it entered none, since the job is done and it has the last state.
  enum class Entry { kSame, kHealed, kLeft, kFinished };
  enum class Old { kAbort, kKeep };
  struct Stats {
    uint64_t worlds = 0;  // entered
    uint64_t healed = 0;
    uint64_t bytes_received = 0;  // of state
    uint64_t bytes_sent = 0;
  };

  WorldChange(const Parts& parts, Settings settings);
  ~WorldChange();
  // Returns false if a thread could not begin; then no world is connected.
  bool has_begun() const { return connector_->has_begun(); }

  const World& world() const { return world_; }
  const Stats& stats() const { return stats_; }
  // Returns the communicator of the present world; null before the first one.
  std::shared_ptr<Communicator> communicator();
  // Aborts that communicator.
  void abort();

  // Returns the generation that this member could change over to now; 0: none.
  uint64_t ready() const { return connector_->ready(); }
  bool is_next_ready() const { return connector_->ready() > world_.generation; }
  // Settles the present world, and enters the next one that works, or finds that the job is done.
  // Errors: kTimeout (no world worked), and those of Session that end it.
  Result<Entry> recover(Old old);
  // Enters the world that all members of this one are ready for, after the same step.
  Result<Entry> change_over(uint64_t generation);

  // Waits until the present world is active, since no result counts before.
  Status become_active();
  bool is_active() const { return is_active_; }

  // Reports whether other members still receive the state, by operations of the communicator.
  bool is_giving() const { return giving_ && !given_->wait_until(Time{}); }
  void wait_for_giving();

  // Ends the tasks. Blocks: until their present calls to the store return.
  void stop();

 private:
  Time operation_deadline() const { return runtime_.now() + options_.operation_timeout; }

  void start_connecting();
  Status come_back(const WaitLimit& limit);
  Status wait_with_looks(StoreTask& task, const WaitLimit& limit);
  Status rejoin(const WaitLimit& limit);
  void give_up_rejoin();

  // --- entering ---
  Result<Entry> come_into(Connected next);
  Result<Entry> enter(Connected next);
  Status check_reach();
  Status connect_gpus();
  Result<RescalePlan> plan_world();
  Result<RescalePlan> plan_beginning();
  Result<StateLabel> begin_anew(const std::optional<CheckpointPointer>& base);
  Result<bool> is_late();
  Result<std::vector<Report>> gather_reports(const StateLabel& label, bool holds);
  Status check_fit(const RescalePlan& plan) const;
  Result<Entry> take_part(const RescalePlan& plan);

  // --- the state ---
  Status take_over_state(const RescalePlan& plan);
  void give_state(const RescalePlan& plan);

  // --- the end of the job ---
  Result<bool> find_end();
  Result<bool> load_end(const StateLabel& end, const CheckpointPointer& pointer);

  bool start_activating();
  void end_worlds(uint64_t generation, const Status& why);

  const SessionOptions& options_;
  Runtime& runtime_;
  Store& store_;
  Life& life_;
  HeldState& held_;
  GradientExchange& exchange_;
  Checkpointer* const checkpoints_;
  Departure& departure_;
  const CommunicatorFactory connect_;
  const uint64_t model_;
  const bool needs_device_reach_;

  World world_;
  bool is_active_ = false;
  bool has_tried_end_ = false;  // to load the last checkpoint
  Stats stats_;

  base::Mutex mutex_;
  // Shared with a task of `connector_` while that ends an operation in it.
  std::shared_ptr<Communicator> communicator_ FFDL_GUARDED_BY(mutex_);
  // The previous world's communicator, until all have changed over: some may still read data of
  // this member.
  std::shared_ptr<Communicator> previous_;

  std::unique_ptr<NextWorldConnector> connector_;
  StoreTask activating_;  // writes that the present world is active
  StoreTask rejoining_;   // begins the next life, after the fence
  bool is_rejoin_wanted_ FFDL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Membership> rejoined_ FFDL_GUARDED_BY(mutex_);  // written by that task
  // Sends the state to other members while the user computes, over this world's communicator.
  std::unique_ptr<Task> giving_;
  const std::unique_ptr<Event> given_;
  uint64_t bytes_given_ = 0;  // written by the task before `given_` is set
};

}  // namespace ffdl::elastic
