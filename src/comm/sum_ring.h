#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ffdl/types.h"
#include "shm/futex.h"
#include "shm/segment_place.h"

// What lies where in the ring through which the members of a world tell their sums to listeners.
// docs/shm-layout.md draws it.
//
// Positions only grow; a byte lies at its position modulo the size of the ring. A sum is a header
// and its elements, in whole lines. Members write and listeners read at the same time: who has read
// looks afterwards whether somebody had begun to write over it.
namespace ffdl::comm {

inline constexpr uint32_t kSumRingLayout = 1;

// Constant once the ring can be found.
struct RingConfig {
  uint64_t generation;  // of the world
  uint64_t members;     // members_hash()
  uint64_t ring_bytes;
  uint32_t ranks;
  uint32_t reserved;
};
static_assert(sizeof(RingConfig) == 32);

enum class RingState : uint32_t { kComing, kOpen, kLeft, kFailed };

// Of one member, changed by it alone; a listener may add 0.
struct alignas(64) RingWords {
  std::atomic<uint64_t> begun;  // position up to which it may have written
  std::atomic<uint64_t> done;   // position up to which it has
  std::atomic<RingState> state;
};
static_assert(sizeof(RingWords) == 64);

// Written by rank 0 before its share.
struct SumHeader {
  uint64_t number;
  uint64_t count;  // of elements
  DType dtype;
  uint32_t is_left_out;  // 1: larger than the ring, nothing follows
  uint64_t reserved[5];
};
static_assert(sizeof(SumHeader) == 64);

// Position where that which begins at 0 with `bytes` of elements ends.
uint64_t bytes_with_header(uint64_t bytes);

// The places in a mapped segment.
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
  // Calls visit(place, bytes) for each run of memory that `bytes` from `position` on lie in.
  template <class Visit>
  void for_each_run(uint64_t position, uint64_t bytes, Visit&& visit) const;

  std::byte* data_;
  RingConfig config_;
};

uint64_t ring_segment_bytes(const RingConfig& config);
Result<shm::Segment> create_ring(const RingConfig& config);

// Errors: those of open_segment, kCorrupt (of another world).
Result<shm::Segment> open_ring(const shm::SegmentPlace& place, const World& world);
// Of a segment that create_ring or open_ring gave.
RingConfig config_of(const shm::Segment& segment);

// Where the store says it.
std::string ring_key(const World& world);

}  // namespace ffdl::comm
