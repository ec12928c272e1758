#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ffdl/checkpoint.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/export.h"
#include "ffdl/membership.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl {

// The outcome of a step.
enum class StepResult {
  kContinue,      // the step was applied
  kWorldChanged,  // the step was applied, and the next step has other members
  kRetryStep,     // not applied: compute the gradients again, for the samples that are due now
  kHealed,        // the state of another member or of a checkpoint has replaced this member's, with
                  // the steps up to step(): discard all computed results
  kLeft,          // this member has left the job, because it asked to leave or was replaced by
                  // another member; the step was applied if step() has increased
};

// Counters of a session since it was opened.
struct SessionStats {
  uint64_t steps = 0;           // applied by this member
  uint64_t skipped_steps = 0;   // of `steps`, without an update because of NaN or Inf
  uint64_t retried_steps = 0;   // failed attempts: kRetryStep, kHealed, or repeated by the session
  uint64_t early_buckets = 0;   // averaged before end_step() was called
  uint64_t worlds = 0;          // entered
  uint64_t healed = 0;          // times that another member's state replaced this member's
  uint64_t bytes_received = 0;  // of state
  uint64_t bytes_sent = 0;
  uint64_t checkpoints = 0;          // published, with a share by this member
  uint64_t dropped_checkpoints = 0;  // with a share, not published: see checkpoint_status()
};

}  // namespace ffdl

// Synchronous training whose members join, leave and die between steps.
// docs/internals/protocol-step.md has the rules, docs/guide/sessions.md the costs.
namespace ffdl {

// The model that a session trains. The buffers of state() are equal at all members after each step.
// So only apply() may change them. It must be the same program at all members, and read only the
// averaged gradients and the state.
// With Backend::kNccl or kDeviceShm the buffers may be in the GPU's memory: all or none of the
// gradients, any of the state. The session uses the buffers after the work that the methods put on
// the default stream (docs/guide/gpu.md).
// Threads: the thread that calls the session calls the methods. A thread of the session also reads
// the memory of state(), from a change of the world until the next apply().
class FFDL_API Trainable {
 public:
  virtual ~Trainable() = default;

  // Returns all data that members have in common: weights, optimizer state, counters. Counts and
  // dtypes must be equal at all members. The addresses must not change during the session.
  virtual std::vector<Buffer> state() = 0;
  // Returns the buffers that a step averages. They must be floating point. The conditions of
  // state() apply.
  virtual std::vector<Buffer> gradients() = 0;
  // Updates the state by one step. gradients() hold the mean over all samples of the step. Not
  // called for a step without samples.
  virtual void apply() = 0;
  // Runs when the members have changed. The world has the new members; state() is their state.
  virtual void on_world(const World& /*world*/) {}
  // Returns a name for an element of gradients(), such as the model's parameter, for errors.
  virtual std::string name_gradient(size_t gradient, uint64_t element) const {
    return "element " + std::to_string(element) + " of gradient " + std::to_string(gradient);
  }
  // Sets state() back to the initial state: the state when the session was opened. Called if no
  // member has the job's state and there is no checkpoint. Errors: end the session; the process may
  // be restarted.
  virtual Status begin_anew() {
    return Status(StatusCode::kUnimplemented,
                  "begin anew: this model cannot be brought back to its beginning; start the "
                  "process again");
  }
};

// Callbacks for a communicator factory. CommunicatorOptions explains their meaning.
struct ConnectWatch {
  std::function<Status()> interrupt_check{};
  std::function<void(int rank)> unreached{};
};
// Creates the communicator of a world.
using CommunicatorFactory = std::function<Result<std::unique_ptr<Communicator>>(
    const World& world, Time deadline, const ConnectWatch& watch)>;

struct SessionOptions {
  Member self{};  // its incarnation is ignored
  MembershipOptions membership{};
  // The action of a member that could not renew its lease for `fence_after`, so that the others may
  // have continued without it.
  enum class OnFence {
    kRejoin,  // it begins a new life with the state in its memory, and the session continues
    kEnd,     // its session ends with kCancelled
  };
  OnFence on_fence = OnFence::kRejoin;
  // The options of the communicators. The thread that calls the session also calls
  // `interrupt_check`: every 50 to 100 ms while the thread waits, and after each call of the
  // trainable. An error of `interrupt_check` ends the session.
  CommunicatorOptions communicator{};
  // The factory of communicators. Empty: connect_communicator(). If it is set, the back end in
  // `communicator` still defines which memory may be used.
  CommunicatorFactory connect{};
  std::vector<StepParticipant*> participants{};  // the same kinds in the same order at all members
  // Enables micro-batches, also known as virtual workers: each member passes its gradients one
  // micro-batch at a time, by add_micro_batch(). The order of additions depends only on the
  // micro-batches (micro_batch_sum.h). So the state has the same bits for any number of members,
  // also if members change. The function returns the number of micro-batches of each rank in the
  // present step, equal at all members: SampleLedger::shares(). The sum over the ranks is
  // `batch_samples` / `micro_batch_samples`. docs/guide/sessions.md has the cost.
  std::function<std::vector<uint64_t>()> micro_batch_shares{};
  uint64_t micro_batch_samples = 1;  // of a whole micro-batch; others are scaled before the sum
  // The size of a bucket; 0: no buckets. With buckets, gradients may be averaged while backward
  // computes later gradients (begin_average). A bucket has consecutive gradients of one dtype,
  // until it has this size. Equal at all members. docs/guide/sessions.md explains the benefit.
  uint64_t bucket_bytes = 0;
  // The shared memory that contains gradients(), if any. The members of one host average a bucket
  // in place if it is all of one SharedMemory (Communicator::register_memory), which is faster.
  std::vector<std::shared_ptr<SharedMemory>> shared_memory{};
  Duration operation_timeout = std::chrono::minutes(6);  // of one collective
  // Until a world works again. The time in which this process stood still does not count.
  Duration recovery_timeout = std::chrono::minutes(10);
  // The treatment of a step whose mean gradient contains NaN or Inf; equal at all members. kReject
  // ends the session at all members, and leaves the state unchanged. kSkip leaves the state
  // unchanged, but counts the step and commits its samples. The check costs a pass over gradients()
  // (docs/guide/sessions.md).
  NonFinite non_finite = NonFinite::kReject;
  bool verify_state = false;        // hash and compare the whole state at each change of the world
  CheckpointOptions checkpoints{};  // of state() and the participants; written during the training
};

// One member of an elastic job.
//   while (!done) {
//     compute_gradients(samples that are due);    // as a ledger assigned them
//     result = session.end_step();                // averages, applies, changes the world
//   }
// A newcomer should load, compile and touch all that it needs before it opens its session. The
// other members connect to the newcomer while they train, and change to the new world at the end of
// a step. One of them sends the state while they compute their next gradients. The newcomer joins
// that step without samples. Then its open() returns.
// The death of a member does not end the sessions of the others. The remaining members settle the
// step in progress, form a world without the dead member, and continue from their newest state.
// With consistent recovery (membership.h) they continue from the newest checkpoint.
// Threads: one thread; ask_to_leave() from any, such as a thread that waits for signals.
// Owns: a membership, communicators and two tasks of the runtime. One more task if begin_average()
//       is called. With checkpoints also one more task and a copy of this member's share of the
//       state. `trainable`, `store`, `runtime` and the participants must outlive the session.
// Blocks: open() until a world has formed and this member has the state; if other members train,
//         also until they end a step. end_step() until all members have called it, at most for
//         `operation_timeout` and then `recovery_timeout`. finish() also until a checkpoint in
//         progress is written. The destructor until the disk has accepted or refused the present
//         write.
// Errors: kInvalidArgument (the members' models or options differ; the mean gradient contains NaN
//         or Inf, with NonFinite::kReject),
//         kUnimplemented (gradients in a GPU's memory, and no GPU, driver or CUDA),
//         kCancelled (this member was replaced or reported dead, or fenced with OnFence::kEnd),
//         kTimeout (no world worked for `recovery_timeout`), kInternal (equal steps, unequal
//         states),
//         kCorrupt (the checkpoint from which the job starts is damaged), kNotFound (the job is
//         done, and no member or checkpoint has its last state), and those of the trainable and of
//         `interrupt_check`. A failed checkpoint does not end the session. After another error the
//         session is over, unless the method says otherwise.
class FFDL_API Session {
 public:
  static Result<std::unique_ptr<Session>> open(const SessionOptions& options, Trainable& trainable,
                                               Store& store, Runtime& runtime = system_runtime());
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Adds a part of this member's gradients, for a share that is too large to compute at once.
  // gradients() hold the mean over the `samples` samples of the next micro-batch, and may be
  // overwritten afterwards. end_step() combines the parts; pass it the sum of their samples.
  // Costs memory for one more gradient (as float32, if its type is shorter).
  // Errors: kInvalidArgument (after begin_average()).
  // With SessionOptions::micro_batch_shares the parts are the job's micro-batches. Micro-batches
  // that a member does not add are empty. The call blocks in the first step of a world until all
  // members are in that step. end_step() reports a failure of other members as kRetryStep or
  // kHealed. A failed step is computed again. Errors: kInvalidArgument (more than this member's
  // share).
  Status add_micro_batch(uint64_t samples);

  // Starts to average the first `end` of gradients(). They hold the mean over `samples` samples:
  // all samples of this member in this step. Do not read or write them until end_step() returns,
  // because a task now averages their complete buckets. Requires SessionOptions::bucket_bytes. May
  // be called several times in a step. Other members need not call it, and the averages are the
  // same without it. end_step() reports a failure of other members as kRetryStep or kHealed. Does
  // not wait. Errors: kInvalidArgument (fewer gradients exist; this step or a ledger has another
  // number of samples; after add_micro_batch()).
  Status begin_average(size_t end, uint64_t samples);

  // Averages the gradients of all members, applies the mean, and changes the world if another one
  // is ready. All members call it, also members without samples. gradients() hold the mean over
  // `samples` samples of this member; with 0 they are not read. After kContinue or kWorldChanged
  // gradients() hold the mean over all members; otherwise they are undefined. After
  // add_micro_batch() pass the sum of the added samples, or 0 to drop them; gradients() are then
  // not read. If a participant knows the step's samples, as a ledger does
  // (StepParticipant::step_samples), pass that number, or 0. With 0 the ledger's samples, such as
  // damaged ones, are committed without a gradient. Errors: also kInvalidArgument (another number;
  // the step has not ended).
  Result<StepResult> end_step(uint64_t samples);
  // Ends the step with the number of samples that a participant knows. Errors: also
  // kInvalidArgument (no participant knows it; the step has not ended).
  Result<StepResult> end_step();

  // Releases the communicator's GPU memory until resume(), for other work on the GPUs
  // (Communicator::suspend explains more). All members, also newcomers, call suspend() and resume()
  // after the same step(). In between, finish() and the calls of a step are not allowed. The next
  // end_step() reports a failure of other members. With kNccl each call blocks until all members
  // have called it. Errors: kInvalidArgument (not in turns, or within a step: the session
  // continues).
  Status suspend();
  Status resume();

  // Returns this member in its present life.
  const Member& self() const;
  // Returns the error that ended this member's life, or ok before its end.
  Status life_status() const;
  // Returns the world of the next step.
  const World& world() const;
  // Returns the number of steps applied since the job started.
  uint64_t step() const;
  SessionStats stats() const;

  // Requests a checkpoint after the next step, or later if another one is still being written.
  // Threads: any.
  void request_checkpoint();
  // Returns why the last checkpoint of this member was dropped; ok if it was published, or if there
  // was none. kExhausted: the disk is full. Threads: any.
  Status checkpoint_status() const;

  // Asks for a world without this member. end_step() works as before until it returns kLeft.
  void ask_to_leave();
  // Ends the training. All members call it after the same step. finish() makes that step stable,
  // records that the job is done, and leaves the job. Errors: also kWorldChanged (members died, and
  // the others have an earlier state, of a member or of a checkpoint: continue the training from
  // step()).
  Status finish();
  // Returns true if the job is done and state() is its last state. Returns false after finish() if
  // this member had asked to leave, and left before the end.
  bool is_finished() const;

  class Impl;

 private:
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The outer optimizer of LocalSgd; equal at all members. The defaults are those of DiLoCo.
struct LocalSgdOptions {
  float learning_rate = 0.7F;  // above 0
  float momentum = 0.9F;       // at least 0, below 1
  bool nesterov = true;
};

// The model of a session whose members make many inner steps between two averages (DiLoCo, arXiv
// 2311.08105; docs/guide/slow_links.md). Each member makes inner steps on its own weights. A step
// of the session is a round:
//   local->begin_round();            // sets the weights to the outer weights
//   ... inner steps on the weights, with all samples that a ledger assigned to this step
//   local->end_round();              // gradients(): the outer weights minus the weights
//   session->end_step();             // updates the outer weights, and commits the samples
// state() has a buffer of outer weights for each buffer of weights, then as many of momentum.
// After kRetryStep, end_round() and end_step() may be called again if the same samples are due.
// Threads: those of Trainable. Owns: its buffers, three times the size of the weights.
class FFDL_API LocalSgd : public Trainable {
 public:
  // `weights`: float32 in the host's memory; they must outlive this object. The outer weights start
  // with their values, unless other members have the state. Errors: kInvalidArgument.
  static Result<std::unique_ptr<LocalSgd>> create(std::vector<Buffer> weights,
                                                  const LocalSgdOptions& options = {});
  ~LocalSgd() override;

  std::vector<Buffer> state() override;
  std::vector<Buffer> gradients() override;
  void apply() override;
  void begin_round();
  void end_round();

 private:
  struct Impl;
  explicit LocalSgd(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
