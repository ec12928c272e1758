#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/reachable_memory.h"
#include "shm/futex.h"
#include "shm/segment.h"

// What lies where in the segment of a communicator. docs/shm-layout.md draws it,
// docs/decisions/0007-collectives.md says why two halves suffice.
namespace ffdl::comm {

inline constexpr uint32_t kLayoutVersion = 3;

// What a rank is about to run, told by its first step.
struct alignas(64) Announcement {
  Signature signature;
  shm::SegmentPlace place;  // nowhere where the operation goes through the slots
};
static_assert(sizeof(Announcement) == 64);

// Constant once the segment can be seen; every place follows from it.
struct ShmConfig {
  uint64_t generation;  // of the world
  uint64_t members;     // members_hash()
  uint64_t slot_bytes;
  uint32_t ranks;
  uint32_t reserved;
};
static_assert(sizeof(ShmConfig) == 32);

// Words of one rank, written by it alone.
struct alignas(64) RankWords {
  std::atomic<uint64_t> arrived;   // steps that it has done its part of
  std::atomic<uint32_t> joined;    // 1: it has this mapped and holds its lock
  std::atomic<uint32_t> failed;    // 1: it will do no other step
  std::atomic<uint32_t> touching;  // 1: it may read and write memory of the others
  std::atomic<int32_t> fd;         // of this segment, in process
  std::atomic<int64_t> pid;
  Announcement announcement[2];  // of its operation q in place q & 1
};
static_assert(sizeof(RankWords) == 192 && std::atomic<uint64_t>::is_always_lock_free);

// What is on its way from one rank to one other, part by part. Empty between messages: a send ends
// when all has been taken.
struct alignas(64) Mailbox {
  // Written by the rank that it belongs to.
  std::atomic<uint64_t> offer;   // number of the message and who shall take it; 0: none yet
  std::atomic<uint64_t> filled;  // parts of the message that lie, or lay, in the box
  Signature sent;                // constant once offered
  // Written by who takes the message, and by the owner before he offers the next.
  alignas(64) std::atomic<uint64_t> taken;  // parts; kRefused: they disagree
  Signature wanted;                         // where refused
  alignas(64) shm::Doorbell bell;
};
static_assert(sizeof(Mailbox) == 192);

inline constexpr uint64_t kRefused = UINT64_MAX;

struct alignas(64) SharedBell {
  shm::Doorbell bell;
};

// Every segment of this module begins alike: header, config, bell, the words of its ranks.
inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kConfigAt = sizeof(shm::SegmentHeader);
inline constexpr uint64_t kBellAt = kConfigAt + 64;
inline constexpr uint64_t kWordsAt = kBellAt + sizeof(SharedBell);
static_assert(kWordsAt % 64 == 0);

// The places in a mapped segment.
class ShmView {
 public:
  ShmView(std::byte* data, const ShmConfig& config) : data_(data), config_(config) {}

  const ShmConfig& config() const { return config_; }
  int ranks() const { return static_cast<int>(config_.ranks); }
  shm::Doorbell& bell() const;
  RankWords& words(int rank) const;
  // What a rank gives in step s lies in half s & 1; so does what it has reduced.
  std::byte* input(int rank, uint64_t step) const { return slot(rank, step & 1); }
  std::byte* result(int rank, uint64_t step) const { return slot(rank, 2 + (step & 1)); }
  Mailbox& mailbox(int rank) const;
  // Part p of a message lies where part p - kMailboxParts lay.
  std::byte* mailbox_part(int rank, uint64_t part) const;

 private:
  std::byte* slot(int rank, uint64_t which) const;

  std::byte* data_;
  ShmConfig config_;
};

// Bytes of a whole segment.
uint64_t segment_bytes(const ShmConfig& config);

// The members of a world, in their order, as a number.
uint64_t members_hash(const World& world);

// A segment of this world that is as large as its config says. Errors: kCorrupt.
Result<ShmConfig> read_config(const shm::Segment& segment, const World& world);

}  // namespace ffdl::comm
