#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ffdl/checkpoint.h"
#include "ffdl/communicator.h"
#include "ffdl/export.h"
#include "ffdl/membership.h"
#include "ffdl/runtime.h"
#include "ffdl/session_stats.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

// Synchronous training whose members come, go and die between steps. docs/protocol-step.md has the
// rules, docs/session.md the costs.
namespace ffdl {

// What a session trains. What state() names is equal at all members after each step: it is changed
// by apply() alone, by the same program, from the averaged gradients and itself.
// With a communicator of kNccl or kDeviceShm either may lie in its GPU's memory: the gradients all
// or none, of the state any; what the methods give its default stream comes first (docs/gpu.md).
// Threads: its methods are called on the thread that calls the session. The memory of state() is
// also read by a thread of the session's, from a change of the world until the next apply().
class FFDL_API Trainable {
 public:
  virtual ~Trainable() = default;

  // Weights, what the optimizer keeps, counters: all that members hold in common. The same counts
  // and dtypes at all members; the same memory for the session's life.
  virtual std::vector<Buffer> state() = 0;
  // What a step averages: floating point. As state() otherwise.
  virtual std::vector<Buffer> gradients() = 0;
  // gradients() hold the mean over all samples of the step: takes the state one step on. Not called
  // for a step without samples.
  virtual void apply() = 0;
  // From here on the members are these, and state() is theirs.
  virtual void on_world(const World& /*world*/) {}
  // Nobody holds the state of the job any more, and there is no checkpoint: brings state() to what
  // the job begins with, which is what it was when the session was opened. Errors: end the session;
  // its process may be started again.
  virtual Status begin_anew() {
    return Status(StatusCode::kUnimplemented,
                  "begin anew: this model cannot be brought back to its beginning; start the "
                  "process again");
  }
};

enum class StepResult {
  kContinue,      // the step was applied
  kWorldChanged,  // it was applied, and the next one has other members
  kRetryStep,     // it was not: compute the gradients again, of the samples that are due now
  kHealed,        // it was not, and the state is that of others, or of a checkpoint, now: drop what
                  // was computed
  kLeft,          // this member is out of the job, as it asked or as another has taken over from
                  // it; the step counts if the step counter has moved
};

// Makes the communicator of a world; `look` is what CommunicatorOptions::look is.
using CommunicatorFactory = std::function<Result<std::unique_ptr<Communicator>>(
    const World& world, Time deadline, const std::function<Status()>& look)>;

struct SessionOptions {
  Member self{};  // its incarnation is not looked at
  MembershipOptions membership{};
  // `look` is asked by the thread that calls the session, too, about every 100 ms while it waits
  // and after what the trainable was called for: what is not ok ends the session.
  CommunicatorOptions communicator{};
  // Empty: connect_communicator(). Set: `communicator` still says which memory may be used.
  CommunicatorFactory connect{};
  std::vector<StepParticipant*> participants{};  // the same kinds in the same order at all members
  // With it the members give gradients one micro-batch at a time (add_micro_batch), and the state
  // has the same bits whatever the number of members and its changes: the sum belongs to the
  // micro-batches (micro_batch_sum.h), which others call virtual workers. Says how many each rank
  // has of the present step, equal at all members: PartitionLedger::shares(), whose `batch_samples`
  // over `micro_batch_samples` is their number. What it costs: docs/session.md.
  std::function<std::vector<uint64_t>()> micro_batch_shares{};
  uint64_t micro_batch_samples = 1;  // of a whole one: any other is scaled before it is added
  // Not 0: gradients may be averaged while backward computes later ones (begin_average), a bucket
  // at a time: as many of gradients(), in their order and of one dtype, as have so many bytes.
  // Equal at all members. When it pays: docs/session.md.
  uint64_t bucket_bytes = 0;
  // What gradients() lie in, if in shared memory: a bucket that is the whole of one is averaged
  // where it lies by the members of one host (Communicator::register_memory), which is faster.
  std::vector<std::shared_ptr<SharedMemory>> shared_memory{};
  Duration operation_timeout = std::chrono::minutes(6);  // of one collective
  Duration recovery_timeout = std::chrono::minutes(10);  // until a world works again
  bool verify_state = false;  // whenever the world changes the whole state is hashed and compared
  CheckpointOptions checkpoints{};  // of state() and the participants, written beside the training
};

// One member of an elastic job.
//   while (!done) {
//     n = compute_gradients(samples that are due);
//     result = session.end_step(n);               // averages, applies, changes the world
//   }
// A newcomer should have loaded, compiled and touched all that it needs when it opens its session:
// the others connect to it while they train, and change over at the end of a step. It takes the
// state from one of them while they compute their next gradients, and takes part in that step with
// no samples: open() returns after it.
// A member that dies ends nobody's session: the others settle the step that they were in, form a
// world without it, and go on from the newest state that any of them holds, or, with consistent
// recovery (membership.h), from the newest checkpoint.
// Threads: one thread; ask_to_leave() from any, and from a signal handler's thread.
// Owns: a membership, communicators, two tasks of the runtime, one more where begin_average() is
//       called, and one more and a copy of this member's share of the state where there are
//       checkpoints. `trainable`, `store`, `runtime` and the participants must outlive it.
// Blocks: open() until a world has formed, its state is here and, where others train, they have
//         ended a step; end_step() until all members have come, which `operation_timeout` bounds,
//         and then `recovery_timeout`; finish() until a checkpoint that was begun is written. The
//         destructor until the disk has taken or refused what is being written.
// Errors: kInvalidArgument (members do not fit together: the message names what differs),
//         kUnimplemented (gradients in a GPU's memory, and no GPU, driver or CUDA),
//         kCancelled (this member was fenced, replaced or reported dead: drop the state), kTimeout
//         (no world worked for `recovery_timeout`), kInternal (equal steps, unequal states),
//         kCorrupt (the checkpoint that the job begins with is damaged), and those of the trainable
//         and of `look`. A checkpoint that cannot be written ends nothing. After an error the
//         session is over.
class FFDL_API Session {
 public:
  static Result<std::unique_ptr<Session>> open(const SessionOptions& options, Trainable& trainable,
                                               Store& store, Runtime& runtime = system_runtime());
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // gradients() hold the mean over `samples` samples of this member's next micro-batch, and are not
  // needed any more: a share that is too large to be computed at once is given in parts. end_step()
  // brings them together, and is given the sum of their samples. Costs memory for one more gradient
  // (as float32, where it is shorter). Errors: kInvalidArgument (after begin_average()).
  // With SessionOptions::micro_batch_shares the parts are those of the job; those that a member
  // does not give are empty. What happens to others shows in end_step(), as kRetryStep or kHealed:
  // a step that failed is computed again. Blocks in the first step of a world then, until all
  // members are in it. Errors: kInvalidArgument (more than this member's share).
  Status add_micro_batch(uint64_t samples);

  // The first `end` of gradients() hold the mean over `samples` samples of this member, all that it
  // has in this step, and are not read or written before end_step() returns: a task averages whole
  // buckets of them from now on. Only with SessionOptions::bucket_bytes, as often as one likes; the
  // sums are the same without it, and other members need not call it. What happens to others shows
  // in end_step(), as kRetryStep or kHealed. Does not wait. Errors: kInvalidArgument (there are
  // fewer gradients, or other `samples` were given in this step).
  Status begin_average(size_t end, uint64_t samples);

  // gradients() hold the mean over `samples` samples of this member; 0: nothing, and they are not
  // read. To be called by all members, also those without samples. Afterwards gradients() are
  // undefined, unless kContinue or kWorldChanged: then they are the mean over all. After
  // add_micro_batch() `samples` is the sum of what was added, or 0: what was added is dropped; and
  // gradients() are not read. Errors: also kInvalidArgument (another number; the step goes on).
  Result<StepResult> end_step(uint64_t samples);

  // Between two steps, for work of another kind on the GPUs: what the communicator keeps of their
  // memory is given back until resume() (Communicator::suspend has more). All members call both
  // after the same step(), newcomers too; no other call of a step, nor finish(), comes in between.
  // What happens to others shows in the next end_step(). With kNccl each blocks until all members
  // have come. Errors: kInvalidArgument (not in turns, or within a step: the session goes on).
  Status suspend();
  Status resume();

  // This life of the member.
  const Member& self() const;
  // Not ok when this life is over: what the calls above would say.
  Status standing() const;
  // The world of the next step.
  const World& world() const;
  // Steps applied since the job began.
  uint64_t step() const;
  SessionStats stats() const;

  // A checkpoint shall be taken after the next step, or soon after: while one is being written no
  // other is begun. Threads: any.
  void request_checkpoint();
  // Why nothing came of the last checkpoint of this member; ok if it was published, or there was
  // none. kExhausted: the disk is full. Threads: any.
  Status checkpoint_status() const;

  // Asks to be left out: end_step() goes on as before until it returns kLeft.
  void ask_to_leave();
  // The training is done. To be called by all members after the same step: makes that one stable,
  // and leaves. Errors: also kWorldChanged (a member died, and with consistent recovery all went
  // back: train on from step()).
  Status finish();

  class Impl;

 private:
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
