#pragma once

#include <cstdint>
#include <functional>

#include "elastic/checkpoint/checkpointer.h"
#include "elastic/session/held_state.h"
#include "elastic/session/life.h"
#include "elastic/session/store_task.h"
#include "elastic/session/wait_limit.h"
#include "ffdl/runtime.h"
#include "ffdl/session.h"

namespace ffdl::elastic {

// Ends the part of a member in its job: waits for its checkpoint, records that the job is done, and
// leaves.
// Threads: the session's thread. Owns: the task that writes the completion.
class Departure {
 public:
  // Requires that the arguments outlive this object. `checkpoints` is null if there are none.
  Departure(const SessionOptions& options, Life& life, const HeldState& held,
            Checkpointer* checkpoints, Runtime& runtime);

  // Begins a wait that lasts recovery_timeout.
  WaitLimit begin_wait() const;
  // Waits until `is_over`, or the job is done, or this life is over, or the limit is reached.
  // Requires checkpoints. Errors: those of interrupt_check.
  Status wait_for_checkpoint(const WaitLimit& limit, const std::function<bool()>& is_over);
  // Writes that the job is done with the state held. Errors: those of Membership::complete() and
  // interrupt_check, kExhausted (no thread).
  Status complete();

  // Leaves like leave_or_be_needed(), after this member's share of a checkpoint is written.
  Result<bool> leave(uint64_t generation);
  // Reports whether this member has left. If not, other members need its state, and a world with it
  // is forming, newer than `generation`. Once the job continues without it, it has left, even if
  // the store is out of reach.
  Result<bool> leave_or_be_needed(uint64_t generation);

  // Returns the task that writes the completion.
  StoreTask& task() { return completing_; }
  // Ends the task. Blocks: until its present call to the store returns.
  void stop() { completing_.join(); }

 private:
  const SessionOptions& options_;
  Life& life_;
  const HeldState& held_;
  Checkpointer* const checkpoints_;
  Runtime& runtime_;
  StoreTask completing_;
};

}  // namespace ffdl::elastic
