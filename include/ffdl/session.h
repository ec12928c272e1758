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
  kWorldChanged,  // the step was applied, and the next one has other members
  kRetryStep,     // not applied: compute the gradients again, of the samples that are due now
  kHealed,        // not applied, and the state was replaced by another member's, or by that of a
                  // checkpoint: drop all computed results
  kLeft,          // this member is out of the job, because it asked to leave or another has taken
                  // over from it; the step counts if the step counter has moved
};

// Counters of a session since it was opened.
struct SessionStats {
  uint64_t steps = 0;           // applied here
  uint64_t skipped_steps = 0;   // of these, without an update because of NaN or Inf
  uint64_t retried_steps = 0;   // kRetryStep, and steps that the session repeated itself
  uint64_t early_buckets = 0;   // averaged before end_step() was called
  uint64_t worlds = 0;          // entered
  uint64_t healed = 0;          // replacements of the state by another one
  uint64_t bytes_received = 0;  // of state
  uint64_t bytes_sent = 0;
  uint64_t checkpoints = 0;          // published, with a share of this member
  uint64_t dropped_checkpoints = 0;  // with a share, but not published: see checkpoint_status()
};

}  // namespace ffdl

// Synchronous training whose members join, leave and die between steps.
// docs/internals/protocol-step.md has the rules, docs/guide/sessions.md the costs.
namespace ffdl {

// The model that a session trains. The buffers of state() are equal at all members after each step.
// So apply() alone changes them: the same program at all members, which reads only the averaged
// gradients and the state itself.
// With a communicator of kNccl or kDeviceShm the buffers may be in its GPU's memory: of the
// gradients all or none, of the state any. The session uses them after the work that the methods
// put on the default stream (docs/guide/gpu.md).
// Threads: the thread that calls the session calls the methods. A thread of the session also reads
// the memory of state(), from a change of the world until the next apply().
class FFDL_API Trainable {
 public:
  virtual ~Trainable() = default;

  // Returns all that members hold in common: weights, optimizer state, counters. The counts and
  // dtypes are the same at all members; the memory is the same for the session's life.
  virtual std::vector<Buffer> state() = 0;
  // Returns the buffers that a step averages. They are floating point, with the conditions of
  // state().
  virtual std::vector<Buffer> gradients() = 0;
  // Updates the state by one step. gradients() hold the mean over all samples of the step. Not
  // called for a step without samples.
  virtual void apply() = 0;
  // Runs when the members have changed: these are the new ones, and state() is theirs.
  virtual void on_world(const World& /*world*/) {}
  // Returns a name of an element of gradients() for an error, such as a parameter of the model.
  virtual std::string name_gradient(size_t gradient, uint64_t element) const {
    return "element " + std::to_string(element) + " of gradient " + std::to_string(gradient);
  }
  // Sets state() to the job's initial state: the state when the session was opened. Called when no
  // member holds the job's state and there is no checkpoint. Errors: they end the session; its
  // process may be started again.
  virtual Status begin_anew() {
    return Status(StatusCode::kUnimplemented,
                  "begin anew: this model cannot be brought back to its beginning; start the "
                  "process again");
  }
};

// Callbacks for a communicator factory, with the meaning that they have in CommunicatorOptions.
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
  // The options of the communicators. The thread that calls the session calls `interrupt_check`,
  // too: about every 100 ms while it waits, and after each call of the trainable. An error from it
  // ends the session.
  CommunicatorOptions communicator{};
  // The factory of communicators. Empty: connect_communicator(). Set: `communicator` still defines
  // which memory may be used.
  CommunicatorFactory connect{};
  std::vector<StepParticipant*> participants{};  // the same kinds in the same order at all members
  // Enables micro-batches: each member gives its gradients one micro-batch at a time, by
  // add_micro_batch(). The sum belongs to the micro-batches (micro_batch_sum.h), which are also
  // known as virtual workers. So the state has the same bits for any number of members and its
  // changes. The function returns the number of micro-batches of each rank in the present step,
  // equal at all members: SampleLedger::shares(). They are `batch_samples` over
  // `micro_batch_samples` in all. docs/guide/sessions.md has the cost.
  std::function<std::vector<uint64_t>()> micro_batch_shares{};
  uint64_t micro_batch_samples = 1;  // of a whole one; others are scaled before they are added
  // The size of a bucket. Not 0: gradients may be averaged while backward computes later ones
  // (begin_average), one bucket at a time. A bucket has as many of gradients(), in order and of one
  // dtype, as have this size. Equal at all members. docs/guide/sessions.md explains when it pays.
  uint64_t bucket_bytes = 0;
  // The shared memory that holds gradients(), if any. The members of one host average a bucket in
  // place if it is one whole memory (Communicator::register_memory), which is faster.
  std::vector<std::shared_ptr<SharedMemory>> shared_memory{};
  Duration operation_timeout = std::chrono::minutes(6);  // of one collective
  Duration recovery_timeout = std::chrono::minutes(10);  // until a world works again
  // The treatment of a step whose mean gradient contains NaN or Inf; equal at all members. kReject
  // ends the session at all of them, and leaves the state unchanged. kSkip applies nothing, but the
  // step counts and its samples are used. The check costs a pass over gradients()
  // (docs/guide/sessions.md).
  NonFinite non_finite = NonFinite::kReject;
  bool verify_state = false;        // hash and compare the whole state at each change of the world
  CheckpointOptions checkpoints{};  // of state() and the participants; written during the training
};

// One member of an elastic job.
//   while (!done) {
//     compute_gradients(samples that are due);    // that a ledger has given
//     result = session.end_step();                // averages, applies, changes the world
//   }
// A newcomer should load, compile and touch all that it needs before it opens its session. The
// others connect to it while they train, and change to the new world at the end of a step. It
// receives the state from one of them while they compute their next gradients. It takes part in
// that step without samples, and open() returns after it.
// A death ends no other member's session. The others settle the step in progress, form a world
// without the dead member, and continue from the newest state that any of them holds. With
// consistent recovery (membership.h) they continue from the newest checkpoint.
// Threads: one thread; ask_to_leave() from any, and from a signal handler's thread.
// Owns: a membership, communicators and two tasks of the runtime. One more task where
//       begin_average() is called. With checkpoints also one more task and a copy of this member's
//       share of the state. `trainable`, `store`, `runtime` and the participants must outlive it.
// Blocks: open() until a world has formed and its state is here; where others train, also until
//         they have ended a step. end_step() until all members have come, at most for
//         `operation_timeout` and then `recovery_timeout`. finish() until a checkpoint in progress
//         is written. The destructor until the disk has accepted or refused the present write.
// Errors: kInvalidArgument (members do not fit together: the message names the difference; the mean
//         gradient contains NaN or Inf, with NonFinite::kReject),
//         kUnimplemented (gradients in a GPU's memory, and no GPU, driver or CUDA),
//         kCancelled (this member was fenced, replaced or reported dead: drop the state), kTimeout
//         (no world worked for `recovery_timeout`), kInternal (equal steps, unequal states),
//         kCorrupt (the checkpoint from which the job starts is damaged), kNotFound (the job is
//         done, and its last state exists nowhere), and those of the trainable and of
//         `interrupt_check`. A checkpoint that cannot be written ends nothing. After an error the
//         session is over.
class FFDL_API Session {
 public:
  static Result<std::unique_ptr<Session>> open(const SessionOptions& options, Trainable& trainable,
                                               Store& store, Runtime& runtime = system_runtime());
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Adds a part of this member's contribution. gradients() hold the mean over the `samples` samples
  // of its next micro-batch, and may be overwritten afterwards. So a share that is too large to
  // compute at once is given in parts. end_step() combines them; pass it the sum of their samples.
  // Costs memory for one more gradient (as float32, where its type is shorter).
  // Errors: kInvalidArgument (after begin_average()).
  // With SessionOptions::micro_batch_shares the parts are the job's micro-batches; those that a
  // member does not give are empty. Then it blocks in the first step of a world until all members
  // are in it. A failure of other members is reported by end_step(), as kRetryStep or kHealed; a
  // failed step is computed again. Errors: kInvalidArgument (more than this member's share).
  Status add_micro_batch(uint64_t samples);

  // Starts to average the first `end` of gradients(). They hold the mean over `samples` samples:
  // all samples of this member in this step. They must not be read or written until end_step()
  // returns, because a task now averages the whole buckets of them. Requires
  // SessionOptions::bucket_bytes. May be called any number of times; other members need not call
  // it, and the sums are the same without it. A failure of other members is reported by end_step(),
  // as kRetryStep or kHealed. Does not wait. Errors: kInvalidArgument (fewer gradients exist; this
  // step or a ledger has another number of samples).
  Status begin_average(size_t end, uint64_t samples);

  // Averages the gradients of all members, applies them, and changes the world where it is due. All
  // members call it, also those without samples. gradients() hold the mean over `samples` samples
  // of this member; with 0 they are not read. After kContinue or kWorldChanged they hold the mean
  // over all members; otherwise they are undefined. After add_micro_batch() `samples` is the sum of
  // the added samples, or 0 to drop them, and gradients() are not read. If a participant knows the
  // samples of the step, as a ledger does (StepParticipant::step_samples), `samples` is that
  // number, or 0. With 0 the ledger's samples are committed without a gradient, such as damaged
  // ones. Errors: also kInvalidArgument (another number; the step continues).
  Result<StepResult> end_step(uint64_t samples);
  // Ends the step with the number of samples that a participant knows. Errors: also
  // kInvalidArgument (no participant knows it; the step continues).
  Result<StepResult> end_step();

  // Releases the communicator's GPU memory until resume(), for other work on the GPUs
  // (Communicator::suspend explains more). All members call both after the same step(), newcomers
  // too. Between them no call of a step, and no finish(), is allowed. A failure of other members is
  // reported by the next end_step(). With kNccl each call blocks until all members have come.
  // Errors: kInvalidArgument (not in turns, or within a step: the session continues).
  Status suspend();
  Status resume();

  // Returns this member in its present life.
  const Member& self() const;
  // Returns the error of the calls above once this life is over, else ok.
  Status life_status() const;
  // Returns the world of the next step.
  const World& world() const;
  // Returns the number of steps applied since the job started.
  uint64_t step() const;
  SessionStats stats() const;

  // Requests a checkpoint after the next step. It is taken later if one is still being written.
  // Threads: any.
  void request_checkpoint();
  // Returns why the last checkpoint of this member was dropped; ok if it was published, or if there
  // was none. kExhausted: the disk is full. Threads: any.
  Status checkpoint_status() const;

  // Asks to be left out. end_step() works as before until it returns kLeft.
  void ask_to_leave();
  // Ends the training. All members call it after the same step. It makes that step stable, records
  // that the job is done, and leaves. Errors: also kWorldChanged (a member died, and with
  // consistent recovery all went back: continue the training from step()).
  Status finish();
  // Returns true if the job is done and state() is its last state. False after a finish() of a
  // member that had asked to leave, and has left before the end.
  bool is_finished() const;

  class Impl;

 private:
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The outer optimizer of LocalSgd; equal at all members. The defaults are those of the paper.
struct LocalSgdOptions {
  float learning_rate = 0.7F;  // above 0
  float momentum = 0.9F;       // from 0 on, below 1
  bool nesterov = true;
};

// The model of a session whose members make many inner steps between two averages (DiLoCo, arXiv
// 2311.08105; docs/guide/slow_links.md). The program makes them on weights that are its member's
// own. A step of the session is a round:
//   local->begin_round();            // the weights are the outer weights, equal at all members
//   ... inner steps on the weights, with the samples that a ledger has given for all of them
//   local->end_round();              // gradients(): the outer weights minus the weights
//   session->end_step();             // moves the outer weights, and commits the samples
// state() has a buffer of outer weights for each of the weights, then as many of momentum.
// After kRetryStep, end_round() and end_step() may be called again if the same samples are due.
// Threads: those of Trainable. Owns: its buffers, three times the size of the weights.
class FFDL_API LocalSgd : public Trainable {
 public:
  // `weights`: float32 in the host's memory; they must outlive this object. Their values are those
  // of the outer weights, unless other members have the state. Errors: kInvalidArgument.
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
