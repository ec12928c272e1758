#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/device_side.h"
#include "elastic/checkpoint/checkpointer.h"
#include "elastic/session/departure.h"
#include "elastic/session/held_state.h"
#include "elastic/session/life.h"
#include "elastic/session/session_memory.h"
#include "elastic/session/world_change.h"
#include "elastic/step/finite.h"
#include "elastic/step/gradient_exchange.h"
#include "ffdl/session.h"

namespace ffdl {

// Runs the life of a world as in docs/internals/protocol-step.md, on the user's thread: the loop of
// steps, and its end. The objects below own what they need for their part, and do not know this
// one.
class Session::Impl {
 public:
  // Implements Session::open() with these GPUs.
  static Result<std::unique_ptr<Session>> make(const SessionOptions& options, Trainable& trainable,
                                               Store& store, Runtime& runtime,
                                               std::unique_ptr<base::DeviceSide> devices);
  Impl(const SessionOptions& options, Trainable& trainable, Store& store, Runtime& runtime,
       elastic::SessionMemory memory);
  ~Impl();

  Status open();
  Status add_micro_batch(uint64_t samples);
  Status begin_average(size_t end, uint64_t samples);
  Result<StepResult> end_step(uint64_t samples);
  Result<StepResult> end_step();
  Status finish();
  bool is_finished() const { return held_.is_last(); }
  Status suspend();
  Status resume();
  const Member& self() const { return life_.self(); }
  Status life_status() const { return life_.status(); }
  const World& world() const { return change_->world(); }
  uint64_t step() const { return held_.label().step; }
  SessionStats stats() const;
  void ask_to_leave() { life_.ask_to_leave(); }
  void request_checkpoint();
  Status checkpoint_status() const;

 private:
  using Entry = elastic::WorldChange::Entry;
  using Old = elastic::WorldChange::Old;
  // The outcome of an attempt at a step.
  struct Attempt {
    Status status{};
    bool is_intact = true;  // the gradients are still the user's
    bool is_over = false;   // there is no such step: this member arrived after the last one
  };
  // The outcome of the checkpoint of the last step.
  enum class LastCheckpoint {
    kSettled,      // it is published, or it never will be
    kOnceMore,     // the members of this world exchange words once more
    kInNextWorld,  // a newer world waits for this member; its members know the outcome
  };

  void start_checkpoints();
  elastic::GradientExchange::Seams seams();

  // --- between steps ---
  bool is_after_the_end() const { return is_finished() && !has_finished_; }
  Status check_resumed(std::string_view doing) const;
  Status heard_of(Status status);

  // --- a step ---
  Attempt try_step(uint64_t samples);
  std::span<std::byte> describe(uint64_t samples, elastic::StepKind kind);
  void pause_exchange();
  Status exchange_messages(uint64_t samples, elastic::StepKind kind);
  void tell_stable();
  Status check_headers() const;
  Result<bool> must_skip();
  Status apply();
  Result<StepResult> begin(Result<Entry> entry);
  elastic::Checkpointer::Moment moment() const;

  // --- the end ---
  bool is_going_back(const Status& status) const;
  Status end_training_or_life();
  Status end_training();
  Status settle();
  Result<LastCheckpoint> take_last_checkpoint(const elastic::WaitLimit& limit);
  bool may_pass_checkpoint() const;
  Status leave_finished();
  Status end_life(Status why);

  Time operation_deadline() { return runtime_.now() + options_.operation_timeout; }

  const SessionOptions options_;
  Trainable& trainable_;
  Store& store_;
  Runtime& runtime_;
  const elastic::SessionMemory memory_;
  elastic::Life life_;
  elastic::HeldState held_;
  const std::vector<Buffer> gradients_;
  const std::vector<Buffer> beginnings_;  // of the gradients, for the history
  elastic::FiniteSearch finite_search_;

  bool is_suspended_ = false;
  bool is_newcomer_ = false;   // within open(), in a step of the other members
  bool has_finished_ = false;  // finish() was called
  SessionStats stats_;         // of the loop: the other objects count their own

  std::unique_ptr<elastic::Checkpointer> checkpoints_;  // null: there are none
  std::unique_ptr<elastic::Departure> departure_;       // made by open(), like the next one
  std::unique_ptr<elastic::WorldChange> change_;
  std::unique_ptr<elastic::GradientExchange> exchange_;  // last: its task uses `life_`
};

}  // namespace ffdl
