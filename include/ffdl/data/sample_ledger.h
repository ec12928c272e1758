#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/types.h"

namespace ffdl {

class Learner;
class Store;

// Assigns to one worker the samples of its gradients. Each sample is committed once per epoch, even
// if workers join, leave or die. A ledger handles sample numbers and reads no data; a DataPipeline
// reads the samples. Three functions make a ledger. They differ in what commits the samples:
//   make_session_ledger()  a step of a session, for all its members
//   make_store_ledger()    commit(), in a store
//   make_push_ledger()     a push to a parameter server
// docs/guide/data.md has the rules. Another implementation must override only the pure functions.
// Threads: one at a time; samples() and sample_indices() from any.
// Blocks: wait(); in a store also take(), commit(), leave() and save(), for store calls.
class FFDL_API SampleLedger {
 public:
  static constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

  virtual ~SampleLedger() = default;

  // Returns the samples for the next gradient: the next `count` samples that this worker holds, or
  // fewer. Until these samples are committed, another call starts at the same sample. Empty: other
  // workers hold the rest of this epoch, or all epochs are done. Errors: those of the function that
  // made the ledger.
  virtual Result<std::vector<SampleRange>> take(uint64_t count = kAll) = 0;
  // Returns the number of taken samples that are not committed yet.
  virtual uint64_t taken() const = 0;
  // If take() would return nothing because other workers hold the rest of an epoch: waits until
  // this may have changed. Returns at once if all epochs are done. In a session wait() always
  // returns at once: a member without samples takes part in the step. Errors: kTimeout.
  virtual Status wait(Time deadline);

  // Returns the samples that this worker holds, in the order of take(), for reading ahead. Each
  // commit may change them.
  virtual const std::vector<SampleRange>& leases() const = 0;
  // Returns the samples that this worker may hold in each of the next `steps` steps, for reading
  // ahead, if leases last for one step. The forecast is a hint, not a promise. Returns fewer steps,
  // or none, if nothing is known.
  virtual std::vector<std::vector<SampleRange>> forecast(size_t steps);
  // Sets LedgerMemberOptions::partitions_wanted from the next commit on. 0 or less: this worker
  // receives no further partitions.
  virtual void want(int partitions);

  virtual uint64_t samples() const = 0;    // of the data set
  virtual uint64_t epoch() const = 0;      // from 0; equal to the number of epochs when all is done
  virtual uint64_t committed() const = 0;  // of this epoch
  virtual bool is_done() const = 0;

  // Returns the positions in the data set of the samples of `ranges`, in the order of training. A
  // range's samples are in its partition, which starts at partition * partition_samples. If samples
  // are shuffled within windows of partitions, they may be in any partition of the window.
  // Errors: kInvalidArgument (a range that no ledger with these options returns).
  virtual Result<std::vector<uint64_t>> sample_indices(
      std::span<const SampleRange> ranges) const = 0;

  // Returns the progress of the job, for a checkpoint. Errors: kInvalidArgument (in a ledger of
  // pushes: the server's cut has the progress), and those of Store.
  virtual Result<std::vector<std::byte>> save();

  // In a session: the object for SessionOptions::participants. Null for other ledgers.
  virtual StepParticipant* participant();
  // In a session with SampleOrder::kGlobal: return the samples of the present step over all
  // members, and each rank's number of micro-batches, for SessionOptions::micro_batch_shares
  // (session.h). At the end of an epoch there may be fewer samples; the last micro-batches are then
  // short or empty. Else 0 and an empty list.
  virtual uint64_t batch_samples() const;
  virtual std::vector<uint64_t> shares() const;

  // In a store: commits the taken samples. After another error than those named here call commit()
  // again. The samples are committed once, and until then take() returns the same samples.
  // Errors: kInvalidArgument (other ledgers: a step or a push commits), kWorldChanged (this worker
  // did not renew its lease, and other workers got the samples: drop the batch, and continue with
  // take()), kCancelled, and those of Store.
  virtual Status commit();
  // In a store: releases this worker's samples that are neither committed nor used, for other
  // workers. This life is then over. Errors: those of commit().
  virtual Status leave();
  // In a store: the job's samples that were assigned again, although a worker that died, or counted
  // as dead, may have used them. Each such worker adds at most the samples that it had reserved for
  // one commit(). Else 0.
  virtual uint64_t repeated() const;
};

enum class Shuffle : uint32_t {
  kNone,        // every epoch in the order of the data set
  kPartitions,  // the partitions in another order each epoch, each partition in its own order
  kSamples,     // as kPartitions, and shuffled within each partition, or window of partitions
};

enum class SampleOrder : uint32_t {
  // A member receives partitions as it uses them up: a fast member receives more.
  kOnDemand,
  // Each step uses the next `batch_samples` of one common order, divided evenly among the members.
  // So a step has the same samples for any number of members, if all take their whole shares.
  kGlobal,
};

// The samples that a step committed, in the order of ranks. Members without samples are left out.
struct CommittedStep {
  struct Part {
    Member member{};  // without its address
    SampleRange range{};

    bool operator==(const Part&) const = default;
  };
  uint64_t step = 0;
  std::vector<Part> parts{};
  uint64_t lineage = 1;  // of the world in which the step is reported
  // The lineage from which that one took its first state; 0: the one before.
  uint64_t continues = 0;

  // Ignores the lineages, so that all reports of one step are equal, by any member at any time.
  bool operator==(const CommittedStep& other) const {
    return step == other.step && parts == other.parts;
  }
};

// The data of a job and its order; equal at all workers of the job.
struct LedgerOptions {
  uint64_t samples = 0;            // of the data set
  uint64_t partition_samples = 0;  // of each partition except the last, which has the rest
  uint64_t epochs = 1;             // 0: the maximum, 2^31
  uint64_t seed = 0;
  Shuffle shuffle = Shuffle::kPartitions;
  // The partitions in a window. Shuffle::kSamples shuffles the samples of a window together, and
  // assigns them in pieces of a partition's size. The partitions of a window are adjacent in the
  // order of the epoch, so each epoch has other windows. If this is at least the number of
  // partitions, all samples are shuffled together. The samples of a piece are in all partitions of
  // its window: docs/guide/data.md explains the cost and the choice.
  uint64_t window_partitions = 1;
  SampleOrder order = SampleOrder::kOnDemand;  // kGlobal: in a session only
  // With kGlobal: the samples of one step over all members, and those of a micro-batch, which is
  // never divided. `batch_samples` is a multiple of micro_batch_samples. even_shares()
  // (micro_batch_sum.h) divides a step among the members that have gradients: a newcomer has none
  // in its first step (session.h).
  uint64_t batch_samples = 0;
  uint64_t micro_batch_samples = 1;
};

// The options of one worker; other workers may have different ones.
struct LedgerMemberOptions {
  // With kOnDemand: the number of partitions that this worker wants to hold, for reading ahead. The
  // worker receives more, up to 64, if its last take() needs them. In the first step of a session
  // it has one. 0 or less: no further partitions, as with want(); a ledger of pushes uses 1.
  int partitions_wanted = 2;
  // With kGlobal: returns the samples of the next step, if that may change during the training.
  // They are rounded down to whole micro-batches, at least one. The order of the samples stays; the
  // boundaries of later steps change. The function is called in take(), applied() and
  // world_changed(), so all members must agree on its value before. Use samples() of a
  // BatchSizeController (batch_size.h) that is before the ledger among the participants. Empty:
  // `batch_samples`.
  std::function<uint64_t()> batch_size_controller{};
  // Receives commits, in order; the workers together report all of them. A commit may be reported
  // more than once, by one worker or several. Repeated reports are equal, unless the job restarted
  // from an older checkpoint. The function must not call the ledger. The functions below add when
  // it is called.
  std::function<void(const CommittedStep&)> on_stable{};
};

// Makes the ledger of a member of a session. The ledger is part of the state that members have in
// common.
//   auto ledger = make_session_ledger({.samples = n, .partition_samples = 4096, .epochs = 3});
//   options.participants = {(*ledger)->participant()};     // SessionOptions, before open()
//   while (!(*ledger)->is_done()) {
//     auto ranges = (*ledger)->take(batch);           // empty: end the step even then
//     compute_gradients((*ledger)->sample_indices(*ranges));  // error handling is omitted
//     session->end_step();                            // commits the taken samples
//   }
// Within a step take() starts at the same sample: call take() once per step, and again before a
// step is repeated. taken() is this member's weight in a mean. It is 0 if a change of the world has
// moved the taken samples to another member. With kGlobal forecast() returns at most 1024 steps.
// The forecast is right if all members take their whole shares, no member joins or leaves, and the
// batch size stays. Every member reports each stable step to `on_stable`, in
// StepParticipant::stable(). The methods never block.
// Errors: kInvalidArgument. take() also: kInvalidArgument (a member has other options;
//         `batch_size_controller` is agreed on too late), kInternal (a member has another state),
//         kExhausted (too many steps wait for stable()). After such an error this member would
//         continue out of order, so take() repeats it until restore() of a good state.
FFDL_API Result<std::unique_ptr<SampleLedger>> make_session_ledger(
    const LedgerOptions& options, const LedgerMemberOptions& member = {});

// The options of one worker of a ledger in a store.
struct StoreLedgerOptions {
  std::string job = "job";  // unique within one store
  std::string id{};         // of this worker; a join under the same id ends the earlier life
  // The number of restarts of the job. The first worker with a larger number resets the ledger to
  // `from`, or to its first sample. Workers of the old lineage then get kCancelled. `from` is a
  // result of save() in a checkpoint. Later workers of the same lineage pass the same `from`, or
  // none.
  uint64_t lineage = 1;
  std::vector<std::byte> from{};
  // A worker that has not renewed its lease for this long counts as dead. Each worker renews its
  // lease four times as often. If a worker that counts as dead still runs, it comes back as a new
  // life: see below.
  Duration lease = std::chrono::seconds(5);
  LedgerMemberOptions member{};
};

// Joins a job whose workers use neither a session nor a parameter server. Each worker commits its
// own samples with one compare-and-put, which also reserves its next samples. But a gradient is not
// committed with its samples. Samples that a dead worker had taken and not committed may be used
// twice. repeated() counts them.
//   auto ledger = make_store_ledger({...}, {.id = "w0"}, *store);
//   while (!(*ledger)->is_done()) {
//     auto ranges = (*ledger)->take(64);              // the same count each time costs least
//     if (ranges->empty()) (*ledger)->wait(deadline_in(1s));  // others hold the rest of the epoch
//     ... compute, and use the gradient
//     (*ledger)->commit();                            // error handling is omitted
//   }
// `on_stable` receives each commit at the worker that made it, and at the worker that makes the
// next. epoch(), committed() and is_done() return the values of this worker's last read of the
// store.
// A worker that stood still for longer than its lease may find that other workers have removed it,
// and got its samples. Then commit() returns kWorldChanged, until the next take(). That take()
// joins again under the same id, as a new life, and returns other samples. If an earlier commit()
// of the dropped batch got no answer, the batch may be committed. Each sample is committed once in
// any case. The worker does not come back while another process has a life under its id.
// Owns: its lease, which a task of the runtime renews. `store` and `runtime` must outlive the
//       ledger. If it is destroyed without leave(), this worker counts as dead at once.
// Blocks: for one store call in each commit() of a single worker, two or three if several commit at
//         the same time. take() calls the store for samples that no commit() has reserved.
// Errors: kInvalidArgument (also: this lineage did not start from `from`; the store's ledger has
//         other options), kCancelled (a larger lineage has started), kCorrupt (the store's record
//         is not a ledger; `from` is invalid), kExhausted (256 workers), and those of Store.
//         Methods: kCancelled once the worker is out: another one joined under its id, it has left,
//         the job restarted, or its launcher has ended. The process may join again: samples taken
//         and not committed are counted as repeated.
FFDL_API Result<std::unique_ptr<SampleLedger>> make_store_ledger(
    const LedgerOptions& options, const StoreLedgerOptions& worker, Store& store,
    Runtime& runtime = system_runtime());

// Makes the ledger of a learner of a parameter server. The server's segment is the only state that
// learners share: push() commits gradient and samples with one atomic store instruction. A lock of
// the kernel shows which learner works on a partition; a scan finds the next free partition. So
// each sample is in the weights once per epoch, even if learners or servers are killed. The server
// must have at least as many partitions as the data set.
//   auto ledger = make_push_ledger({.samples = n, .partition_samples = 64, .epochs = 3}, *learner);
//   while (!(*ledger)->is_done()) {
//     auto ranges = (*ledger)->take(32);
//     if (ranges->empty()) (*ledger)->wait(deadline_in(1s));  // others hold the rest of the epoch
//     ... gradient_slot(), pull(), compute; error handling is omitted
//     learner->push(Gradient::slot(), *ranges);               // commits the taken samples
//   }
//   learner->detach(deadline_in(5s));
// The next pushes, one or several, must name all samples of take(), in this order. take() also
// returns nothing if the server is so late that the learner cannot accumulate more (ranges_max).
// wait() publishes the learner's accumulated gradients. Meanwhile staleness bounds and rounds
// ignore this learner. push() reports each publication of this learner to `on_stable`, as step 256
// * sequence + slot of member "slot-<slot>". A killed learner's last publication is reported by the
// next ledger that is created, or by all ledgers at the end of the epoch. So set `on_stable` at all
// learners.
// Threads: that of the learner. Owns: no partition: the learner holds them until this ledger is
//          destroyed. Borrows the learner, which must outlive the ledger; one ledger per learner.
// Blocks: also the destructor, for a start_push() in progress.
// Errors: kInvalidArgument. Methods: kInvalidArgument (a start_push() is in progress: call
//         finish_push() first), kCancelled (the learner is detached, or the server has ended).
FFDL_API Result<std::unique_ptr<SampleLedger>> make_push_ledger(
    const LedgerOptions& options, Learner& learner, const LedgerMemberOptions& member = {});

}  // namespace ffdl
