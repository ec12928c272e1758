#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "elastic/checkpoint/checkpoint_folder.h"
#include "elastic/checkpoint/decide_checkpoint.h"
#include "elastic/state/page_buffer.h"
#include "elastic/state/user_memory.h"
#include "ffdl/checkpoint.h"
#include "ffdl/membership.h"
#include "ffdl/runtime.h"

namespace ffdl::elastic {

// Takes, writes and publishes the checkpoints of one member of a session. The session's thread
// copies this member's share of the state. A task writes it, and publishes the checkpoint once all
// shares are written and the step is stable.
// Threads: all methods from the session's thread; request() and const methods from any.
// Owns: its task, and a copy of the share. The constructor's arguments must outlive it.
class Checkpointer {
 public:
  // Access to the job for a checkpoint. Threads: called from the task, without a lock.
  struct Job {
    std::string name;
    std::function<bool(const Member&)> is_here;  // Membership::is_candidate()
    std::function<World()> world;                // the newest
    std::function<std::optional<CheckpointPointer>()> newest;
    // Membership::publish_checkpoint().
    std::function<Status(const CheckpointPointer&, Time deadline)> publish;
  };
  // The state to take, on the session's thread.
  struct Moment {
    const World* world = nullptr;
    uint64_t step = 0;
    uint64_t history = 0;
    std::span<const Buffer> state{};
    std::function<std::vector<std::byte>()> save_participants{};  // called at rank 0
  };
  struct Stats {
    uint64_t published = 0;  // with a share of this member
    uint64_t dropped = 0;    // with a share of this member
    Status last{};           // why the last one was dropped; ok if it was published
  };

  // Requires the `memory` of the state.
  Checkpointer(const CheckpointOptions& options, std::vector<TensorFacts> tensors, Runtime& runtime,
               UserMemory& memory, Job job);
  ~Checkpointer();
  // Returns false if its thread could not begin; then nothing is written.
  bool has_begun() const { return task_ != nullptr; }
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Returns the word for the step that is about to be made.
  CheckpointWord word(uint64_t step);
  // Returns the word for an exchange after the last step, `step`, in this generation. It wants a
  // checkpoint until one was begun there by take_last().
  CheckpointWord last_word(uint64_t step, uint64_t generation);
  // Receives the words of all members of `world` for a step that succeeded.
  void hear(const World& world, std::span<const CheckpointWord> words);
  // Takes the present state, if the words of its step decided that. Drops the checkpoint if the
  // state cannot be copied out of a GPU's memory.
  void take(const Moment& moment);
  // Takes the state of the last step like take().
  void take_last(const Moment& moment);
  // Records that all steps up to this one are stable.
  void stable(uint64_t step);
  // Requests a checkpoint with the next step.
  void request();

  // Ends the task; a checkpoint in progress is not published. Blocks: until the disk has taken or
  // refused the present write.
  void stop();

  // Reports whether the share of the checkpoint in progress is on the disk, or none is in progress.
  // is_idle() reports whether none is in progress.
  bool is_written() const;
  bool is_idle() const;
  // Reports whether the last published one is of this step and of the present lineage.
  bool has_published(uint64_t step) const;
  // Set when either of the first two may have changed.
  Event& progress() { return *progress_; }
  Stats stats() const;

  // Loads what the job begins with: `base`, or the newest of the folder if there is no base and the
  // options ask for it. Returns nothing for the initial state. Errors: those of load_checkpoint().
  Result<std::optional<Checkpoint>> load(const std::optional<CheckpointPointer>& base,
                                         std::span<const Buffer> into) const;

 private:
  struct Pending {
    CheckpointLabel label;
    std::vector<Member> authors;
    int rank = 0;
    std::vector<ShardPart> parts;
    std::vector<std::byte> participants;
    std::string note;
    std::optional<double> metric;
    std::vector<bool> has_shard;  // by author: its shard was seen
    bool is_written = false;
    bool is_given_up = false;
    bool is_published = false;  // another member reported it
  };

  void run(const StopToken& stop);
  Status copy_share(const Moment& moment, Pending& pending);
  Status write(const Pending& pending) const;
  CheckpointFacts look(Pending& pending) const;
  Status publish(const Pending& pending) const;
  void give_up(const Pending& pending, const Status& why);
  void end(const Status& outcome);
  // Returns the step of the last checkpoint seen published, or 0 if that was in another lineage.
  uint64_t published_in(uint64_t lineage) const FFDL_REQUIRES(mutex_);

  const CheckpointOptions options_;
  const std::vector<TensorFacts> tensors_;
  Runtime& runtime_;
  UserMemory& memory_;  // used on the session's thread
  const Job job_;
  const CheckpointFolder folder_;
  const std::unique_ptr<Event> wake_;
  const std::unique_ptr<Event> progress_;

  // Used by the session's thread.
  bool should_take_ = false;
  uint64_t tried_last_in_ = 0;  // the generation that began the checkpoint of the last step
  Time last_;

  // Written while no checkpoint is pending, read while one is.
  PageBuffer copy_;

  mutable base::Mutex mutex_;
  // Shared: the task writes its findings while the session's thread records reports.
  std::shared_ptr<Pending> pending_ FFDL_GUARDED_BY(mutex_);
  uint64_t published_ FFDL_GUARDED_BY(mutex_) = 0;
  uint64_t published_lineage_ FFDL_GUARDED_BY(mutex_) = 0;
  uint64_t stable_ FFDL_GUARDED_BY(mutex_) = 0;
  bool is_requested_ FFDL_GUARDED_BY(mutex_) = false;
  Stats stats_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::elastic
