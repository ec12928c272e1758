#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/data_pipeline.h"
#include "ffdl/data_source.h"
#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

struct BatchRingOptions {
  uint32_t slots = 8;  // batches that wait to be used, or are in use
  // Of one batch: what its samples have, 16 for each sample, 24 for each range, and 128. All slots
  // are reserved when the ring is made.
  uint64_t slot_bytes = uint64_t{8} << 20;
  uint32_t consumers_max = 8;  // at a time
  uint32_t consumers = 1;      // the first put() waits until so many are attached
};

struct BatchRingStats {
  uint64_t batches = 0;    // put
  uint64_t waited = 0;     // of them, for a consumer or a slot
  uint32_t consumers = 0;  // attached
  // Batches that a consumer who is gone, dead or not, had not used: each as often as there were
  // such consumers.
  uint64_t abandoned = 0;
};

// Batches that one process reads and others of the host use where they lie: each consumer is given
// every batch that is put while it is attached, in this order. A batch is copied once, by who
// reads, from where its pipeline has it into the ring; what goes to a consumer is its place. So who
// trains neither reads nor unpacks, and what several use is read once.
//   ring = BatchRing::create(source->format(), {});
//   tell(ring->place());                               // an argument, a pipe, a key of a store
//   while (!ledger->is_done()) {
//     status = pipeline->next(batch, 256);
//     status = ring->put(batch, soon());
//     status = ring->wait_used(soon());            // all have used it: it may be committed
//     status = ledger->advance();
//   }
//   ring->finish();
// The ledger is that of who reads. A session's ledger commits in the process that trains, with the
// session's steps: there the pipeline stays, and reads ahead on threads.
// Threads: one at a time; stats() from any. Not for a forked child.
// Owns: the memory, which has no name: when all who use it are gone, so is it. When the object goes
//       without finish(), by its end or its process's, consumers are told kPeerLost.
// Blocks: put() while nobody is attached, or somebody has not let go of the batch whose slot is
//         next; wait_used(); both until their deadline. A consumer that is stopped holds it up,
//         one that died does not: the kernel tells.
class FFDL_API BatchRing final {
 public:
  // `format`: what consumers are told of the samples. Errors: kInvalidArgument, kExhausted
  // (memory).
  static Result<std::unique_ptr<BatchRing>> create(const SampleFormat& format,
                                                   const BatchRingOptions& options);
  ~BatchRing();
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;

  // For BatchConsumer::attach() in another process of this user, host and pid namespace.
  std::string place() const;

  // Copies a batch into the ring. Errors: kTimeout (it has no effect, and the message says who is
  // waited for), kInvalidArgument (it has no room in a slot, or follows finish()), kCancelled (in a
  // forked child).
  Status put(const DataBatch& batch, Time deadline);

  // Waits until everybody has used what was put: has asked for the batch after it, or let go of it.
  // Errors: kTimeout, and once kPeerLost where a consumer is gone that had not: put the batch
  // again, or go on. kCancelled.
  Status wait_used(Time deadline);

  // No batch follows: consumers come to an end when they have used what was put.
  void finish();

  BatchRingStats stats() const;

 private:
  class Impl;
  explicit BatchRing(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// A batch where it lies. Its slot is free for another when this goes, at all consumers, and all
// batches before it.
// Threads: any. May outlive its BatchConsumer.
class FFDL_API SharedBatch final {
 public:
  ~SharedBatch();
  SharedBatch(const SharedBatch&) = delete;
  SharedBatch& operator=(const SharedBatch&) = delete;

  // Of all that were put, counted from 0.
  uint64_t number() const { return number_; }
  // As it was put; its samples lie one behind the other, in `bytes`, at a multiple of 64.
  const DataBatch& operator*() const { return batch_; }
  const DataBatch* operator->() const { return &batch_; }

 private:
  friend class BatchConsumer;
  class Owner;
  explicit SharedBatch(std::shared_ptr<Owner> owner);
  const std::shared_ptr<Owner> owner_;  // a batch may be the last that uses the memory
  uint64_t number_ = 0;
  DataBatch batch_{};
  std::vector<std::span<const std::byte>> samples_{};
};

// Who uses the batches of a BatchRing.
//   consumer = BatchConsumer::attach(place);
//   while (true) {
//     batch = consumer->next(soon());
//     if (!batch.ok() || *batch == nullptr) return batch.status();  // nullptr: there are no more
//     compute_gradients((*batch)->samples);
//   }
// Threads: next() one at a time. Not for a forked child, which attaches itself.
// Owns: a mapping of the ring, and the lock by which the kernel says that it lives.
// Blocks: next() until there is another batch, or its deadline.
class FFDL_API BatchConsumer final {
 public:
  // Is given the batches that are put from now on. Errors: kInvalidArgument (no place of a ring, or
  // of another version), kUnavailable (its process is gone, or of another user or pid namespace),
  // kConflict (the ring is gone), kExhausted (consumers_max are attached).
  static Result<std::unique_ptr<BatchConsumer>> attach(std::string_view place);
  ~BatchConsumer();
  BatchConsumer(const BatchConsumer&) = delete;
  BatchConsumer& operator=(const BatchConsumer&) = delete;

  const SampleFormat& format() const;

  // Nothing after the last one. Errors: kTimeout, kPeerLost (who reads died, or gave up: what it
  // had put is given before), kCorrupt, kCancelled (in a forked child).
  Result<std::unique_ptr<SharedBatch>> next(Time deadline);

 private:
  explicit BatchConsumer(std::shared_ptr<SharedBatch::Owner> owner);
  const std::shared_ptr<SharedBatch::Owner> owner_;  // batches may outlive this
};

}  // namespace ffdl
