#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/device_side.h"
#include "base/mutex.h"
#include "elastic/averaging.h"
#include "elastic/checkpointer.h"
#include "elastic/gradient_sum.h"
#include "elastic/micro_batches.h"
#include "elastic/rescale.h"
#include "elastic/step_message.h"
#include "elastic/successor.h"
#include "elastic/user_memory.h"
#include "ffdl/session.h"

namespace ffdl {

// The life of a world as docs/protocol-step.md has it, on the user's thread. Beside that: the
// successor's task, which may abort the communicator, and one that gives the state to others.
class Session::Impl {
 public:
  // Session::open(), with these GPUs.
  static Result<std::unique_ptr<Session>> make(const SessionOptions& options, Trainable& trainable,
                                               Store& store, Runtime& runtime,
                                               std::unique_ptr<base::DeviceSide> devices);
  // Where state and gradients lie.
  struct Memory {
    std::unique_ptr<elastic::UserMemory> of_both{};
    base::Gpu of_gradients{};  // none: the host's; its side belongs to `of_both`
    int device = -1;           // of a communicator of GPUs
  };
  Impl(const SessionOptions& options, Trainable& trainable, Store& store, Runtime& runtime,
       Memory memory);
  ~Impl();

  Status open();
  Status add_micro_batch(uint64_t samples);
  Status begin_average(size_t end, uint64_t samples);
  Result<StepResult> end_step(uint64_t samples);
  Status finish();
  Status suspend();
  Status resume();
  const Member& self() const { return self_; }
  Status standing() const;
  const World& world() const { return world_; }
  uint64_t step() const { return step_; }
  SessionStats stats() const;
  void ask_to_leave();
  void request_checkpoint();
  Status checkpoint_status() const;

 private:
  // How a member came into a world.
  enum class Entry { kSame, kHealed, kLeft };
  // What became of an attempt at a step.
  struct Attempt {
    Status status{};
    bool is_intact = true;  // the gradients are what the user gave
  };

  static Result<Memory> find_memory(const SessionOptions& options, Trainable& trainable,
                                    std::unique_ptr<base::DeviceSide> devices);

  // --- between steps ---
  Status check_resumed(std::string_view doing) const;
  Status heard_of(Status status);

  // --- a step ---
  bool is_contribution_due() const;
  Status begin_step();
  Attempt try_step(uint64_t samples);
  enum class Step { kNext, kNone };
  std::span<std::byte> describe(uint64_t samples, Step step);
  Status check_noted(uint64_t samples) const;
  Status bring_parts_together(uint64_t samples);
  void pause_averaging();
  Status exchange_messages(uint64_t samples, Step step);
  Status become_active();
  void tell_stable();
  Status average();
  Status apply();
  Result<StepResult> change_over(uint64_t generation);

  // --- a change of the world ---
  enum class Old { kAbort, kKeep };
  Result<Entry> recover(Old old);
  Result<Entry> enter(elastic::Connected next);
  Status begin_anew();
  Status begin_from(const Checkpoint& checkpoint);
  Status connect_gpus();
  Result<std::vector<elastic::Report>> gather_reports();
  Status check_fit(const elastic::RescalePlan& plan) const;
  Status check_reach();
  Result<Entry> take_part(const elastic::RescalePlan& plan);
  Status take_over_state(int from);
  void give_state(const elastic::RescalePlan& plan);
  std::vector<std::byte> save_beside() const;
  Status restore_beside(std::span<const std::byte> bytes);
  Result<bool> is_late();
  Result<bool> leave();
  Result<bool> leave_or_be_needed();
  void has_left();
  Status end_life(Status why);

  // --- checkpoints ---
  void start_checkpoints();
  void take_checkpoint();
  enum class Until { kWritten, kIdle };
  Status wait_for_checkpoint(Until until);

  // --- small ---
  bool is_final(const Status& status);
  Status look();
  Time next_look(Time deadline);
  void wait_for_giving();
  void abort_communicator();
  std::shared_ptr<Communicator> communicator();
  Time operation_deadline() { return runtime_.now() + options_.operation_timeout; }

  const SessionOptions options_;
  Trainable& trainable_;
  Store& store_;
  Runtime& runtime_;
  const Memory memory_;
  const std::vector<Buffer> state_;
  const std::vector<Buffer> gradients_;
  const std::vector<Buffer> beginnings_;  // of the gradients, for the history
  const std::vector<std::span<const Buffer>> buckets_;
  elastic::MicroBatches micro_batches_;
  elastic::GradientSum parts_;        // of this member's share, where there are no micro-batches
  Status micro_batches_failed_;       // in this step, by what end_step() has to see to
  uint64_t model_ = 0;                // a hash of what both consist of
  std::vector<std::byte> beginning_;  // of the participants
  bool is_pristine_ = true;           // the state is what it was when the session was opened

  Member self_;
  elastic::StepMessages messages_;  // the task of `averaging_` writes them
  World world_;
  bool is_active_ = false;
  bool is_suspended_ = false;
  uint64_t step_ = 0;
  bool holds_ = false;  // the state of this label:
  uint64_t lineage_ = 0;
  uint64_t generation_ = 0;
  uint64_t history_ = 0;
  uint64_t told_stable_ = 0;  // the last step that the participants were told to be stable
  SessionStats stats_;
  Status over_;
  Status looked_;  // what ended the session, once it has been seen

  base::Mutex mutex_;
  // Shared with the successor's task while that ends an operation in it.
  std::shared_ptr<Communicator> communicator_ FFDL_GUARDED_BY(mutex_);
  // Of the world before, until all have changed over: some may still read what this one gave.
  std::shared_ptr<Communicator> previous_;

  // Changed with the mutex held, as ask_to_leave() comes from other threads.
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<elastic::Successor> successor_;
  std::unique_ptr<elastic::Checkpointer> checkpoints_;  // null: none are wanted
  // Gives the state to others while the user computes; of this world's communicator.
  std::unique_ptr<Task> giving_;
  std::unique_ptr<Event> given_;
  uint64_t bytes_given_ = 0;      // written by the task before `given_` is set
  elastic::Averaging averaging_;  // last: its task uses most of the above
};

}  // namespace ffdl
