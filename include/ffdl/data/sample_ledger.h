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

// Assigns the samples from which one worker computes its gradients. Each sample is committed once
// per epoch, whichever workers join, leave or die. It handles sample numbers and reads no data; a
// DataPipeline reads by it. Three functions make one, and differ in what commits the samples:
//   make_session_ledger()  a step of a session, for all its members
//   make_store_ledger()    commit(), in a store
//   make_push_ledger()     a push to a parameter server
// docs/guide/data.md has the rules. Another implementation need not override the functions that
// are not pure.
// Threads: one at a time; samples() and sample_indices() from any.
// Blocks: wait(); in a store also take(), commit(), leave() and save(), for its calls.
class FFDL_API SampleLedger {
 public:
  static constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

  virtual ~SampleLedger() = default;

  // Returns the samples for the next gradient: up to `count`, the next ones that this worker holds.
  // Until they are committed, another call starts at the same sample. Empty: other workers hold the
  // rest of this epoch, or all is done. Errors: those of the function that made the ledger.
  virtual Result<std::vector<SampleRange>> take(uint64_t count = kAll) = 0;
  // Returns the number of taken samples that are not committed yet.
  virtual uint64_t taken() const = 0;
  // Waits while take() would return nothing because other workers hold the rest of an epoch, until
  // that may have changed. Returns at once if all is done. In a session it always returns at once:
  // a member without samples takes part in the step. Errors: kTimeout.
  virtual Status wait(Time deadline);

  // Returns the samples that this worker holds, in the order in which it will take them, for
  // reading ahead. They may change with each commit.
  virtual const std::vector<SampleRange>& leases() const = 0;
  // Returns the samples that this worker may hold in each of the next `steps` steps, for reading
  // ahead, if leases last for one step. It is a hint, not a promise. Returns fewer steps, or none,
  // if nothing is known.
  virtual std::vector<std::vector<SampleRange>> forecast(size_t steps);
  // Sets the wanted number of partitions from the next commit on
  // (LedgerMemberOptions::partitions_wanted). 0 or less: no further partitions at all.
  virtual void want(int partitions);

  virtual uint64_t samples() const = 0;    // of the data set
  virtual uint64_t epoch() const = 0;      // from 0; equal to the number of epochs when all is done
  virtual uint64_t committed() const = 0;  // samples of this epoch
  virtual bool is_done() const = 0;

  // Returns the positions of the samples of ranges in the data set, in the order of training. A
  // range's samples are in its partition, which starts at partition * partition_samples. If samples
  // are shuffled within windows of partitions, they may be in any partition of its window.
  // Errors: kInvalidArgument (a range that no ledger with these options returns).
  virtual Result<std::vector<uint64_t>> sample_indices(
      std::span<const SampleRange> ranges) const = 0;

  // Returns the progress of the job, for a checkpoint. Errors: kInvalidArgument (with pushes: the
  // server's cut has it), and those of Store.
  virtual Result<std::vector<std::byte>> save();

  // In a session: the object to give to SessionOptions::participants. Null for other ledgers.
  virtual StepParticipant* participant();
  // In a session, with SampleOrder::kGlobal: the samples of the present step over all members, and
  // the micro-batches of each rank, for SessionOptions::micro_batch_shares (session.h). At the end
  // of an epoch there may be fewer samples; the last micro-batches are then short or empty. Else 0
  // and none.
  virtual uint64_t batch_samples() const;
  virtual std::vector<uint64_t> shares() const;

  // In a store: commits the taken samples. After an error call it again until it succeeds or
  // returns kCancelled: the commit happens once, and until then take() returns the same samples.
  // Errors: kInvalidArgument (other ledgers: a step or a push commits), and those of Store.
  virtual Status commit();
  // In a store: releases the held samples that this worker did not commit, and has not used, for
  // other workers. This life is then over. Errors: those of commit().
  virtual Status leave();
  // In a store: the samples of the job that were given out again, although a worker that died, or
  // counted as dead, may have used them. Each such worker adds at most those that it had taken and
  // not committed. Else 0.
  virtual uint64_t repeated() const;
};

enum class Shuffle : uint32_t {
  kNone,        // every epoch in the order of the data set
  kPartitions,  // the partitions in another order each epoch, each in its own order
  kSamples,     // and the samples within each partition, or window of partitions
};

enum class SampleOrder : uint32_t {
  // A member receives partitions as it uses them up: a fast one receives more.
  kOnDemand,
  // Each step uses the next `batch_samples` of one order, divided evenly among the members. So a
  // step has the same samples at any number of members, if all take their whole share.
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
  uint64_t lineage = 1;  // of the world in which it is reported (World::lineage)

  // Ignores the lineage: the result is the same for every reporting member and time.
  bool operator==(const CommittedStep& other) const {
    return step == other.step && parts == other.parts;
  }
};

// The data of a job and its order: equal at all its workers.
struct LedgerOptions {
  uint64_t samples = 0;            // of the data set
  uint64_t partition_samples = 0;  // of each partition except the last, which has the rest
  uint64_t epochs = 1;             // 0: as many as can be counted, 2^31
  uint64_t seed = 0;
  Shuffle shuffle = Shuffle::kPartitions;
  // The number of partitions whose samples Shuffle::kSamples shuffles together, and then gives out
  // in pieces of a partition's size. The partitions of a window follow each other in the order of
  // the epoch, so each epoch has other windows. With the number of all partitions, or more, all
  // samples are shuffled together. The samples of a piece are in all partitions of its window:
  // docs/guide/data.md explains the cost of reading them and the choice.
  uint64_t window_partitions = 1;
  SampleOrder order = SampleOrder::kOnDemand;  // kGlobal: in a session only
  // The samples of one step over all members, and the smallest unit that is not divided; with
  // kGlobal. `batch_samples` is a multiple of it. Shares are those of even_shares()
  // (micro_batch_sum.h) among the members that have gradients: a newcomer has none in its first
  // step (session.h).
  uint64_t batch_samples = 0;
  uint64_t micro_batch_samples = 1;
};

// The options of one worker; those of others may differ.
struct LedgerMemberOptions {
  // The number of partitions that this worker wants to hold, for reading ahead; with kOnDemand. It
  // receives more, up to 64, if its last take() needs them; the first step of a session has one. 0
  // or less: no more than it needs.
  int partitions_wanted = 2;
  // Returns the samples of the next step, if that may change during the training; with kGlobal.
  // They are rounded down to whole micro-batches, at least one. The order of the samples stays; the
  // boundaries of later steps change. It is called in applied() and world_changed(), so its value
  // must be agreed on before. Use samples() of a BatchSizeController (batch_size.h) that is before
  // the ledger among the participants. Empty: `batch_samples`.
  std::function<uint64_t()> batch_size_controller{};
  // Receives commits, in order; the workers together report all of them. One may be reported more
  // than once, by one worker or several. It is then equal, unless the job restarted from an older
  // checkpoint. It must not call the ledger. The functions below add when it is called.
  std::function<void(const CommittedStep&)> on_stable{};
};

// Makes the ledger of a member of a session. It is part of the state that members hold in common.
//   auto ledger = make_session_ledger({.samples = n, .partition_samples = 4096, .epochs = 3});
//   options.participants = {(*ledger)->participant()};     // SessionOptions, before open()
//   while (!(*ledger)->is_done()) {
//     auto ranges = (*ledger)->take(batch);           // empty: take part in the step with nothing
//     compute_gradients((*ledger)->sample_indices(*ranges));  // error handling is omitted
//     session->end_step();                            // commits the taken samples
//   }
// take() starts at the same sample within a step: call it once per step, and again for a step that
// is to be repeated. taken() is this member's weight in a mean, and 0 if a change of the world has
// given the taken samples to another member. forecast() returns, with kGlobal, at most 1024 steps,
// right if all members take their whole shares, no member joins or leaves, and the batch size
// stays. Every member reports each step to `on_stable` once it is stable, in StepParticipant's
// stable(). The methods never block.
// Errors: kInvalidArgument. take() also: kInvalidArgument (a member has other options;
//         `batch_size_controller` is agreed on too late), kInternal (a member has another state),
//         kExhausted (too many steps wait for stable()). With any of them this member would
//         continue out of order. restore() of a good state clears it.
FFDL_API Result<std::unique_ptr<SampleLedger>> make_session_ledger(
    const LedgerOptions& options, const LedgerMemberOptions& member = {});

// The place of a worker among those that share a ledger in a store.
struct StoreLedgerOptions {
  std::string job = "job";  // unique within one store
  std::string id{};         // of this worker; a join under the same id ends the earlier life
  // The number of restarts of the job. The first worker with a larger number resets the ledger to
  // `from`, or to its start; workers of the old lineage are then out. `from` is the result of a
  // save() in a checkpoint. Later workers of the same lineage pass the same `from`, or none.
  uint64_t lineage = 1;
  std::vector<std::byte> from{};
  // A worker that has not renewed its lease for this long counts as dead. It renews four times as
  // often.
  Duration lease = std::chrono::seconds(5);
  LedgerMemberOptions member{};
};

// Joins a job whose workers use neither a session nor a parameter server. Each worker commits its
// own samples with one compare-and-put, which also records its next ones. But a gradient is not
// committed with its samples: those that a dead worker had taken and not committed may be used
// twice. repeated() counts them.
//   auto ledger = make_store_ledger({...}, {.id = "w0"}, *store);
//   while (!(*ledger)->is_done()) {
//     auto ranges = (*ledger)->take(64);              // the same count each time costs least
//     if (ranges->empty()) (*ledger)->wait(deadline_in(1s));  // others hold the rest of the epoch
//     ... compute, and use the gradient
//     (*ledger)->commit();                            // error handling is omitted
//   }
// `on_stable` receives each commit at the worker that made it, and at the one that makes the next.
// epoch(), committed() and is_done() are those of this worker's last read of the store.
// Owns: its lease, which a task of the runtime keeps alive. `store` and `runtime` must outlive it.
//       Destruction without leave() is a death to the others, at once.
// Blocks: one call of the store for each commit() of a single worker, two or three if several
//         commit at the same time. take() calls it for samples that no commit() has reserved.
// Errors: kInvalidArgument (also: this lineage did not start from `from`; the store's ledger has
//         other options), kCancelled (a larger lineage has started), kCorrupt (the store's record
//         is not a ledger; `from` is invalid), kExhausted (256 workers), and those of Store.
//         Methods: kCancelled once this life is over: its lease has ended and others hold its
//         samples, another worker joined under its id, or the job restarted. Joining again is
//         allowed: samples taken and not committed are counted as repeated.
FFDL_API Result<std::unique_ptr<SampleLedger>> make_store_ledger(
    const LedgerOptions& options, const StoreLedgerOptions& worker, Store& store,
    Runtime& runtime = system_runtime());

// Makes the ledger of a learner of a parameter server. The server's segment is the only state that
// learners share: push() commits gradient and samples with one store. A lock of the kernel records
// which learner works on a partition; the next free partition is found by a scan. So each sample is
// in the weights once per epoch, whichever learners or servers are killed. The server has at least
// as many partitions as the data set.
//   auto ledger = make_push_ledger({.samples = n, .partition_samples = 64, .epochs = 3}, *learner);
//   while (!(*ledger)->is_done()) {
//     auto ranges = (*ledger)->take(32);
//     if (ranges->empty()) (*ledger)->wait(deadline_in(1s));  // others hold the rest of the epoch
//     ... gradient_slot(), pull(), compute; error handling is omitted
//     learner->push(Gradient::slot(), *ranges);               // commits the taken samples
//   }
//   learner->detach(deadline_in(5s));
// The next pushes name all samples of take(), in any number of pushes, in this order. take() also
// returns nothing if the server is so late that the learner cannot accumulate more (ranges_max).
// wait() publishes the learner's accumulated gradients, and takes the learner out of bounds and
// rounds meanwhile. push() reports each publication of this learner to `on_stable`, as step 256 *
// sequence + slot of member "slot-<slot>". A killed learner's last publication is reported by the
// next ledger that is created, or by all at the end of the epoch: so set `on_stable` at all.
// Threads: that of the learner. Owns: no partition: the learner holds them, until this object is
//          destroyed. Borrows the learner, which must outlive it; one ledger per learner.
// Blocks: also the destructor, for a start_push() in progress.
// Errors: kInvalidArgument. Methods: kInvalidArgument (a start_push() is in progress: call
//         finish_push() first), kCancelled (the learner is detached, or the server has ended).
FFDL_API Result<std::unique_ptr<SampleLedger>> make_push_ledger(
    const LedgerOptions& options, Learner& learner, const LedgerMemberOptions& member = {});

}  // namespace ffdl
