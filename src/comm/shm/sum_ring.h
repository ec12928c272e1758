#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/operation/world_key.h"
#include "ffdl/types.h"
#include "shm/futex.h"
#include "shm/segment_place.h"

// Defines the layout of the ring through which the members of a world publish sums to subscribers.
// docs/internals/shm-layout.md draws it.
//
// Positions only grow; a byte is stored at its position modulo the size of the ring. A sum is a
// header and its elements, in whole lines. Members write and subscribers read at the same time.
// After a read, a subscriber checks that no member had begun to overwrite the bytes.
namespace ffdl::comm {

inline constexpr uint32_t kSumRingLayout = 2;

// Constant once the ring can be found.
struct RingConfig {
  uint64_t generation;  // of the world
  uint64_t job;         // job_hash()
  uint64_t members;     // world_hash()
  uint64_t ring_bytes;
  uint32_t ranks;
  uint32_t reserved;
};
static_assert(sizeof(RingConfig) == 40);

enum class RingState : uint32_t { kComing, kOpen, kLeft, kFailed };

// Words of one member, changed by it alone; a subscriber may add 0.
struct alignas(64) RingWords {
  std::atomic<uint64_t> begun;  // position up to which it may have written
  std::atomic<uint64_t> done;   // position up to which it has written
  std::atomic<RingState> state;
};
static_assert(sizeof(RingWords) == 64);

// Written by rank 0 before its share.
struct SumHeader {
  uint64_t number;
  uint64_t count;  // of elements
  DType dtype;
  uint32_t is_left_out;  // 1: larger than the ring, no elements follow
  uint64_t reserved[5];
};
static_assert(sizeof(SumHeader) == 64);

// Returns the end position of a sum with `bytes` of elements that begins at 0.
uint64_t bytes_with_header(uint64_t bytes);

// Computes the places in a mapped segment.
class RingView {
 public:
  RingView(std::byte* data, const RingConfig& config) : data_(data), config_(config) {}

  const RingConfig& config() const { return config_; }
  int ranks() const { return static_cast<int>(config_.ranks); }
  shm::Doorbell& bell() const;
  RingWords& words(int rank) const;
  void write(uint64_t position, const std::byte* from, uint64_t bytes) const;
  void read(uint64_t position, std::byte* to, uint64_t bytes) const;

 private:
  // Calls visit(place, bytes) for each contiguous run of the `bytes` from `position` on.
  template <class Visit>
  void for_each_run(uint64_t position, uint64_t bytes, Visit&& visit) const;

  std::byte* data_;
  RingConfig config_;
};

uint64_t ring_segment_bytes(const RingConfig& config);
Result<shm::Segment> create_ring(const RingConfig& config);

// Errors: those of open_segment, kCorrupt (of another world).
Result<shm::Segment> open_ring(const shm::SegmentPlace& place, const World& world);
// Returns the config of a segment from create_ring or open_ring.
RingConfig config_of(const shm::Segment& segment);

}  // namespace ffdl::comm
