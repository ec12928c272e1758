#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/data_source.h"
#include "ffdl/status.h"
#include "ffdl/types.h"
#include "shm/futex.h"
#include "shm/segment.h"

// The layout of a ring of batches, and the words by which its processes coordinate.
// docs/internals/shm-layout.md has a drawing.
//
// Batch n is in slot n modulo the number of slots. The reader writes it when no consumer needs the
// earlier batch of that slot, and then publishes the count n + 1. Each consumer publishes the
// number before which it has released all batches.
namespace ffdl::data {

inline constexpr uint32_t kBatchRingLayout = 1;

// Constant once the ring can be found.
struct BatchRingConfig {
  uint64_t slot_bytes;
  uint32_t slots;
  uint32_t consumers_max;
  uint64_t sample_bytes;  // the SampleFormat begins here
  uint32_t is_fixed;
  uint32_t dimensions;
  char dtype[32];
  uint64_t shape[16];
};
static_assert(sizeof(BatchRingConfig) == 192);

// Errors: kInvalidArgument (the format does not fit).
Result<BatchRingConfig> make_ring_config(const SampleFormat& format, uint32_t slots,
                                         uint64_t slot_bytes, uint32_t consumers_max);
SampleFormat format_of(const BatchRingConfig& config);
uint64_t ring_bytes(const BatchRingConfig& config);
// Returns the bytes that a batch needs in its slot.
uint64_t bytes_in_slot(const DataBatch& batch);

enum class RingState : uint32_t { kOpen, kFinished, kGivenUp };

// Words that the reader changes, except `abandoned`.
struct alignas(64) ReaderWords {
  std::atomic<uint64_t> batches;  // number of batches put so far
  std::atomic<RingState> state;
  std::atomic<uint64_t> abandoned;
  alignas(64) shm::Doorbell filled;    // consumers wait here
  alignas(64) shm::Doorbell released;  // the reader waits here
};
static_assert(sizeof(ReaderWords) == 192);

enum class ConsumerState : uint32_t { kGone, kComing, kHere };

// Words of one consumer, changed by the holder of its lock.
struct alignas(64) ConsumerWords {
  std::atomic<uint64_t> released;  // it released all batches before this one, with their slots
  std::atomic<uint64_t> used;      // also counts those it held when it asked for another
  std::atomic<ConsumerState> state;
};
static_assert(sizeof(ConsumerWords) == 64);

// The head of a slot. Then follow the ranges, the numbers of the samples, the end of each sample
// and, at a multiple of 64, their bytes.
struct BatchHead {
  uint64_t number;
  uint64_t ranges;
  uint64_t indices;
  uint64_t samples;
  uint64_t bytes;
  uint64_t skipped;
  uint64_t reserved[2];
};
static_assert(sizeof(BatchHead) == 64);

// The ring in a mapped segment. A copy refers to the same memory.
class BatchRingView {
 public:
  BatchRingView(std::byte* data, const BatchRingConfig& config) : data_(data), config_(config) {}

  const BatchRingConfig& config() const { return config_; }
  ReaderWords& reader() const;
  ConsumerWords& consumer(uint32_t i) const;

  // Calls of the reader:
  uint32_t consumers() const;  // number attached
  // Returns the first consumer that blocks batch `number`, or consumers_max if none does.
  uint32_t in_the_way(uint64_t number) const;
  // Returns the first consumer that has not used all batches, or consumers_max if all have.
  uint32_t first_unused() const;
  // Writes batch number reader().batches. Requires that no consumer blocks it.
  void put(const DataBatch& batch) const;
  void end(RingState state) const;

  // Calls of the holder of the lock of consumer i. enter() returns the first batch that it
  // receives. ask() records that it asks for a batch. release() records that it has released all
  // batches before `number`. leave() frees the place, whichever consumer had it.
  uint64_t enter(uint32_t i) const;
  void ask(uint32_t i, uint64_t number) const;
  void release(uint32_t i, uint64_t number) const;
  void leave(uint32_t i) const;

  // Reads batch `number`, which is published and not released, and lists its samples in `samples`.
  // Errors: kCorrupt (it was overwritten).
  Result<DataBatch> read(uint64_t number, std::vector<std::span<const std::byte>>& samples) const;

 private:
  std::byte* slot(uint64_t number) const;

  std::byte* data_;
  BatchRingConfig config_;
};

// Errors: kExhausted. No process can find the segment before it receives the place from place_of().
Result<shm::Segment> create_batch_ring(const BatchRingConfig& config);
// Returns the view of a segment that create_batch_ring() made in any process. Errors: kCorrupt.
Result<BatchRingView> view_of(const shm::Segment& segment);

}  // namespace ffdl::data
