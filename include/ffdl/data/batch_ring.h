#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/data_source.h"
#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

struct BatchRingOptions {
  uint32_t slots = 8;  // batches that wait to be used, or are in use
  // The size of one batch: its samples, 16 bytes for each sample, 24 for each range, and 128. All
  // slots are reserved when the ring is created.
  uint64_t slot_bytes = uint64_t{8} << 20;
  uint32_t consumers_max = 8;  // attached at the same time
  uint32_t consumers = 1;      // the first put() waits until this many are attached
};

struct BatchRingStats {
  uint64_t batches = 0;    // put
  uint64_t waited = 0;     // of these, put() calls that waited for a consumer or a slot
  uint32_t consumers = 0;  // attached
  // Batches that a consumer had not used when it left or died. A batch counts once for each such
  // consumer.
  uint64_t abandoned = 0;
};

// A ring of batches in shared memory: one process reads data, and others of the host use the
// batches in place. Each consumer receives every batch that is put while it is attached, in this
// order. The reading process copies a batch once, from its pipeline into the ring. A consumer
// receives only its place. So processes that train neither read nor unpack, and shared data is read
// once.
//   ring = BatchRing::create(source->format(), {});
//   tell(ring->place());                               // an argument, a pipe, a key of a store
//   while (!ledger->is_done()) {
//     status = pipeline->next(batch, 256);
//     status = ring->put(batch, soon());
//     status = ring->wait_used(soon());            // all have used it: it may be committed
//     status = ledger->advance();
//   }
//   ring->finish();
// The ledger belongs to the reading process. A session's ledger commits in the training process,
// with the session's steps. There the pipeline stays in that process, and reads ahead on threads.
// Threads: one at a time; stats() from any. Not for a forked child.
// Owns: the memory, which has no name: it is freed when the last process that uses it ends. If the
//       object is destroyed or its process dies without finish(), consumers get kPeerLost.
// Blocks: put() while no consumer is attached, or one still uses the batch in the next slot;
//         wait_used(); both until their deadline. A stopped consumer delays them. A dead one does
//         not: the kernel reports its death.
class FFDL_API BatchRing final {
 public:
  // Creates a ring. `format`: the format of the samples, for consumers.
  // Errors: kInvalidArgument, kExhausted (memory).
  static Result<std::unique_ptr<BatchRing>> create(const SampleFormat& format,
                                                   const BatchRingOptions& options);
  ~BatchRing();
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;

  // Returns the argument of BatchConsumer::attach(), for another process of this user, host and pid
  // namespace.
  std::string place() const;

  // Copies a batch into the ring. Errors: kTimeout (no effect; the message names the consumers that
  // it waits for), kInvalidArgument (larger than a slot, or after finish()), kCancelled (in a
  // forked child).
  Status put(const DataBatch& batch, Time deadline);

  // Waits until every consumer has used all batches: it has requested the next one, or released
  // them. Errors: kTimeout; kPeerLost, once, if a consumer left without using them: put the batch
  // again, or continue; kCancelled.
  Status wait_used(Time deadline);

  // Ends the sequence of batches. Consumers end after the last batch.
  void finish();

  BatchRingStats stats() const;

 private:
  class Impl;
  explicit BatchRing(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// A consumer of the batches of a BatchRing.
//   consumer = BatchConsumer::attach(place);
//   while (true) {
//     batch = consumer->next(soon());
//     if (!batch.ok() || *batch == nullptr) return batch.status();  // nullptr: there are no more
//     compute_gradients((*batch)->samples);
//   }
// Threads: next() one at a time. Not for a forked child, which must attach itself.
// Owns: a mapping of the ring, and a lock by which the kernel reports that it lives.
// Blocks: next() until there is another batch, or its deadline.
class FFDL_API BatchConsumer final {
 public:
  // Attaches to a ring; receives the batches that are put after this. Errors: kInvalidArgument (not
  // the place of a ring, or of another version), kUnavailable (its process is gone, or has another
  // user or pid namespace), kConflict (the ring is gone), kExhausted (consumers_max are attached).
  static Result<std::unique_ptr<BatchConsumer>> attach(std::string_view place);
  ~BatchConsumer();
  BatchConsumer(const BatchConsumer&) = delete;
  BatchConsumer& operator=(const BatchConsumer&) = delete;

  const SampleFormat& format() const;

  // Returns the next batch as it was put, with its number; or null after the last one. Its samples
  // are contiguous, in `bytes`, aligned to 64. Dropping it releases its slot, and those of all
  // batches before it that are dropped, too; a slot is reused when all consumers have released it.
  // Threads: a batch may be used and dropped on any, and may outlive this object. Errors: kTimeout,
  // kPeerLost (the reading process died or gave up; earlier batches are returned first), kCorrupt,
  // kCancelled (in a forked child).
  Result<std::shared_ptr<const DataBatch>> next(Time deadline);

 private:
  class Impl;
  explicit BatchConsumer(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;  // batches may outlive this
};

}  // namespace ffdl
