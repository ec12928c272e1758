#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/data_pipeline.h"
#include "ffdl/data_source.h"
#include "ffdl/status.h"
#include "ffdl/types.h"
#include "shm/futex.h"
#include "shm/segment.h"

// What lies where in a ring of batches, and the words by which its processes go round it.
// docs/shm-layout.md draws it.
//
// Batch n lies in slot n modulo the number of slots. Who reads writes it when no consumer needs
// what was there, and then says that there are n + 1. Each consumer says up to which batch it has
// let go.
namespace ffdl::data {

inline constexpr uint32_t kBatchRingLayout = 1;

// Constant once the ring can be found.
struct BatchRingConfig {
  uint64_t slot_bytes;
  uint32_t slots;
  uint32_t consumers_max;
  uint64_t sample_bytes;  // from here on: the SampleFormat
  uint32_t is_fixed;
  uint32_t dimensions;
  char dtype[32];
  uint64_t shape[16];
};
static_assert(sizeof(BatchRingConfig) == 192);

// Errors: kInvalidArgument (a format of more than that).
Result<BatchRingConfig> make_ring_config(const SampleFormat& format, uint32_t slots,
                                         uint64_t slot_bytes, uint32_t consumers_max);
SampleFormat format_of(const BatchRingConfig& config);
uint64_t ring_bytes(const BatchRingConfig& config);
// Of a batch in its slot.
uint64_t bytes_in_slot(const DataBatch& batch);

enum class RingState : uint32_t { kOpen, kFinished, kGivenUp };

// Changed by who reads, but for `abandoned`.
struct alignas(64) ReaderWords {
  std::atomic<uint64_t> batches;  // that are there, or were
  std::atomic<RingState> state;
  std::atomic<uint64_t> abandoned;
  alignas(64) shm::Doorbell filled;    // consumers sleep here
  alignas(64) shm::Doorbell released;  // and here who reads
};
static_assert(sizeof(ReaderWords) == 192);

enum class ConsumerState : uint32_t { kGone, kComing, kHere };

// Of one consumer, changed by who holds its lock.
struct alignas(64) ConsumerWords {
  std::atomic<uint64_t> released;  // all batches before this one: their slots
  std::atomic<uint64_t> used;      // the same, and what it had when it asked for another
  std::atomic<ConsumerState> state;
};
static_assert(sizeof(ConsumerWords) == 64);

// What a slot begins with: then its ranges, the numbers of its samples, where each ends, and at a
// multiple of 64 their bytes.
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

  // For who reads.
  uint32_t consumers() const;  // attached
  // The first that stands in the way of batch `number`; consumers_max where none does.
  uint32_t in_the_way(uint64_t number) const;
  // The first that has not used all that was put; consumers_max where all have.
  uint32_t first_unused() const;
  // As batch number reader().batches, in whose way nobody stands.
  void put(const DataBatch& batch) const;
  void end(RingState state) const;

  // For who holds the lock of consumer i: the first batch that it is given; that it asks for one,
  // or has let go of all before it; that nobody is there any more, whoever was.
  uint64_t enter(uint32_t i) const;
  void ask(uint32_t i, uint64_t number) const;
  void release(uint32_t i, uint64_t number) const;
  void leave(uint32_t i) const;

  // Batch `number`, which is there and not released, and into `samples` where they lie. Errors:
  // kCorrupt (something wrote over it).
  Result<DataBatch> read(uint64_t number, std::vector<std::span<const std::byte>>& samples) const;

 private:
  std::byte* slot(uint64_t number) const;

  std::byte* data_;
  BatchRingConfig config_;
};

// Errors: kExhausted. Nobody can find it before place_of() is told.
Result<shm::Segment> create_batch_ring(const BatchRingConfig& config);
// Of a segment that create_batch_ring() made, here or elsewhere. Errors: kCorrupt.
Result<BatchRingView> view_of(const shm::Segment& segment);

}  // namespace ffdl::data
