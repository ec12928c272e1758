#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "elastic/checkpoint_folder.h"
#include "elastic/page_buffer.h"
#include "elastic/publication.h"
#include "elastic/user_memory.h"
#include "ffdl/checkpoint.h"
#include "ffdl/membership.h"
#include "ffdl/runtime.h"

namespace ffdl::elastic {

// Takes, writes and publishes the checkpoints of one member of a session. The thread of the session
// copies this member's share of the state; a task writes it, and makes the checkpoint count when
// all have written theirs and the step is stable.
// Threads: the methods from that of the session, but for request() and those that are const.
// Owns: its task, and a copy of the share. What the constructor is given must outlive it.
class Checkpointer {
 public:
  // What a checkpoint must know of the job. Threads: called from the task, without a lock.
  struct Job {
    std::string name;
    std::function<bool(const Member&)> is_here;  // Membership::is_candidate()
    std::function<World()> world;                // the newest
    std::function<std::optional<CheckpointPointer>()> newest;
    // Membership::publish_checkpoint().
    std::function<Status(const CheckpointPointer&, Time deadline)> publish;
  };
  // What is taken, on the thread of the session.
  struct Moment {
    const World* world = nullptr;
    uint64_t step = 0;
    uint64_t history = 0;
    std::span<const Buffer> state{};
    std::function<std::vector<std::byte>()> save_participants{};  // called at rank 0
  };
  struct Stats {
    uint64_t published = 0;  // that this member had a share in
    uint64_t dropped = 0;    // the same, but nothing came of them
    Status last{};           // why the last one was dropped; ok when it was published
  };

  // `memory` is that of the state.
  Checkpointer(const CheckpointOptions& options, std::vector<TensorFacts> tensors, Runtime& runtime,
               UserMemory& memory, Job job);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // With the step that is about to be made.
  CheckpointWord word(uint64_t step);
  // What all members of `world` said with a step that has succeeded.
  void hear(const World& world, std::span<const CheckpointWord> words);
  // The state of this moment, if that was what the words of its step said. Where it cannot be
  // copied out of a GPU's memory nothing comes of the checkpoint.
  void take(const Moment& moment);
  // All steps up to this one are stable.
  void stable(uint64_t step);
  // With the next step.
  void request();

  // Ends the task; what is under way is not published. Blocks: until the disk has taken or refused
  // what is being written.
  void stop();

  // Whether the share of the one under way is on the disk, or none is under way; and whether
  // nothing is under way.
  bool is_written() const;
  bool is_idle() const;
  // Set when either may have changed.
  Event& progress() { return *progress_; }
  Stats stats() const;

  // What the job begins with: `base`, or where there is none the newest of the folder if the
  // options say so. Nothing: the initial state. Errors: those of load_checkpoint().
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
    std::vector<bool> has_shard;  // of those whose shards were seen
    bool is_written = false;
    bool is_given_up = false;
    bool is_published = false;  // somebody says so
  };

  void run(const StopToken& stop);
  Status copy_share(const Moment& moment, Pending& pending);
  Status write(const Pending& pending) const;
  CheckpointFacts look(Pending& pending) const;
  Status publish(const Pending& pending) const;
  void end(const Status& outcome);

  const CheckpointOptions options_;
  const std::vector<TensorFacts> tensors_;
  Runtime& runtime_;
  UserMemory& memory_;  // on the session's thread
  const Job job_;
  const CheckpointFolder folder_;
  const std::unique_ptr<Event> wake_;
  const std::unique_ptr<Event> progress_;

  // Of the session's thread.
  bool should_take_ = false;
  Time last_;

  // Written while none is pending, read while one is.
  PageBuffer copy_;

  mutable base::Mutex mutex_;
  // Shared: the task writes what it has found while the session's thread hears of it.
  std::shared_ptr<Pending> pending_ FFDL_GUARDED_BY(mutex_);
  uint64_t published_ FFDL_GUARDED_BY(mutex_) = 0;
  uint64_t stable_ FFDL_GUARDED_BY(mutex_) = 0;
  bool is_requested_ FFDL_GUARDED_BY(mutex_) = false;
  Stats stats_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::elastic
