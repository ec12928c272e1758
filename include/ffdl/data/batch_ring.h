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
  // The maximum size of a batch: its samples, 16 bytes for each sample, 24 for each range, and 128.
  // The memory of all slots is reserved when the ring is created.
  uint64_t slot_bytes = uint64_t{8} << 20;
  uint32_t consumers_max = 8;  // attached at the same time
  uint32_t consumers = 1;      // the first put() waits until this many are attached
};

struct BatchRingStats {
  uint64_t batches = 0;    // put
  uint64_t waited = 0;     // put() calls that waited for a consumer or a slot
  uint32_t consumers = 0;  // attached now
  // Batches that a consumer had not used when it left or died. A batch counts once for each such
  // consumer.
  uint64_t abandoned = 0;
};

// A ring of batches in shared memory. One process reads data, and other processes of the host use
// the batches in place. Each consumer receives, in order, every batch that is put while it is
// attached. The reading process copies a batch once, from its pipeline into the ring. A consumer
// receives no copy. So training processes neither read nor unpack, and shared data is read once.
//   ring = BatchRing::create(source->format(), {});
//   tell(ring->place());                               // by an argument, a pipe, a key of a store
//   while (!ledger->is_done()) {
//     status = pipeline->next(batch, 256);
//     status = ring->put(batch, soon());
//     status = ring->wait_used(soon());                // all consumers have used the batch
//     status = ledger->commit();
//   }
//   ring->finish();
// The ledger belongs to the reading process. A session's ledger commits in the training process,
// with the session's steps. So with a session the pipeline stays in that process, and reads ahead
// on threads.
// Threads: one at a time; stats() from any. A forked child must not use the ring.
// Owns: the memory. It has no name, and is freed when the last process that uses it ends. If the
//       ring is destroyed or its process dies without finish(), consumers get kPeerLost.
// Blocks: put() while no consumer is attached, or one still uses the batch in the next slot;
//         wait_used(); both until their deadline. A stopped consumer delays them. A dead consumer
//         does not, because the kernel reports its death.
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

  // Copies a batch into the ring. Errors: kTimeout (no effect; the message names a consumer that
  // put() waits for), kInvalidArgument (the batch is larger than a slot, or the ring is finished),
  // kCancelled (in a forked child, or the launcher has ended).
  Status put(const DataBatch& batch, Time deadline);

  // Waits until every consumer has used all batches, that is, released them or requested the next
  // one. Errors: kTimeout; kPeerLost, once, if a consumer left without using all batches: put these
  // again, or continue; kCancelled.
  Status wait_used(Time deadline);

  // Ends the sequence: after the last batch BatchConsumer::next() returns null.
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
// Threads: next() one at a time. A forked child must attach its own consumer.
// Owns: a mapping of the ring, and a file lock, which shows the ring that the consumer lives.
// Blocks: next() until there is another batch, or its deadline.
class FFDL_API BatchConsumer final {
 public:
  // Attaches to a ring. The consumer receives the batches that are put afterwards. Errors:
  // kInvalidArgument (not a ring's place, or a ring of another version), kUnavailable (its process
  // is gone, or has another user or pid namespace), kConflict (the ring is gone), kExhausted
  // (consumers_max are attached).
  static Result<std::unique_ptr<BatchConsumer>> attach(std::string_view place);
  ~BatchConsumer();
  BatchConsumer(const BatchConsumer&) = delete;
  BatchConsumer& operator=(const BatchConsumer&) = delete;

  const SampleFormat& format() const;

  // Returns the next batch as it was put, with its number, or null after the last batch. The
  // samples are contiguous, in `bytes`, aligned to 64. A slot is released when its batch and all
  // earlier ones are dropped. The ring reuses a slot when all consumers have released it. Threads:
  // a batch may be used and dropped on any, and may outlive this consumer. Errors: kTimeout,
  // kPeerLost (the reading process died or gave up; earlier batches are returned first), kCorrupt,
  // kCancelled (in a forked child, or the launcher has ended).
  Result<std::shared_ptr<const DataBatch>> next(Time deadline);

 private:
  class Impl;
  explicit BatchConsumer(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;  // batches may outlive this
};

}  // namespace ffdl
