#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/operation/reachable_memory.h"
#include "comm/operation/world_key.h"
#include "shm/futex.h"
#include "shm/segment.h"

// Defines the layout of a communicator's segment. docs/internals/shm-layout.md draws it, and
// docs/decisions/0007-collectives.md explains why two halves suffice.
namespace ffdl::comm {

inline constexpr uint32_t kLayoutVersion = 4;

// The operation that a rank is about to run, published by its first step.
struct alignas(64) Announcement {
  Signature signature;
  shm::SegmentPlace place;  // segment 0 if the operation goes through the slots
  uint64_t operation;       // its number
};
static_assert(sizeof(Announcement) == 64);

// Constant once the segment is visible; every place follows from it.
struct ShmConfig {
  uint64_t generation;  // of the world
  uint64_t job;         // job_hash()
  uint64_t members;     // world_hash()
  uint64_t slot_bytes;
  uint32_t ranks;
  uint32_t reserved;
};
static_assert(sizeof(ShmConfig) == 40);

// Words of one rank, written by it alone.
struct alignas(64) RankWords {
  std::atomic<uint64_t> arrived;   // steps of which it has done its part
  std::atomic<uint32_t> joined;    // 1: it has this mapped and holds its lock
  std::atomic<uint32_t> failed;    // 1: it will do no other step
  std::atomic<uint32_t> touching;  // 1: it may read and write memory of the others
  std::atomic<int32_t> fd;         // of this segment, in that process
  std::atomic<int64_t> pid;
  Announcement announcement[2];  // of its operation q in place q & 1
};
static_assert(sizeof(RankWords) == 192 && std::atomic<uint64_t>::is_always_lock_free);

// A message from one rank to one other, part by part. Empty between messages: a send ends when all
// parts have been taken.
struct alignas(64) Mailbox {
  // Written by the owner, which sends.
  std::atomic<uint64_t> offer;   // message number and receiver; 0: none yet
  std::atomic<uint64_t> filled;  // parts of the message written so far
  Signature sent;                // constant once offered
  // Written by the receiver, and by the owner before it offers the next message.
  alignas(64) std::atomic<uint64_t> taken;  // parts; kRefused: the ranks disagree
  Signature wanted;                         // if refused
  alignas(64) shm::Doorbell bell;
};
static_assert(sizeof(Mailbox) == 192);

inline constexpr uint64_t kRefused = UINT64_MAX;

struct alignas(64) SharedBell {
  shm::Doorbell bell;
};

// The common beginning of every segment of this module: header, config, bell, the words of its
// ranks.
inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kConfigAt = sizeof(shm::SegmentHeader);
inline constexpr uint64_t kBellAt = kConfigAt + 64;
inline constexpr uint64_t kWordsAt = kBellAt + sizeof(SharedBell);
static_assert(kWordsAt % 64 == 0);

// Computes the places in a mapped segment.
class ShmView {
 public:
  ShmView(std::byte* data, const ShmConfig& config) : data_(data), config_(config) {}

  const ShmConfig& config() const { return config_; }
  int ranks() const { return static_cast<int>(config_.ranks); }
  shm::Doorbell& bell() const;
  RankWords& words(int rank) const;
  // Inputs of step s are in half s & 1; so are the results of a rank's reduction.
  std::byte* input(int rank, uint64_t step) const { return slot(rank, step & 1); }
  std::byte* result(int rank, uint64_t step) const { return slot(rank, 2 + (step & 1)); }
  Mailbox& mailbox(int rank) const;
  // Part p of a message is at the place of part p - kMailboxParts.
  std::byte* mailbox_part(int rank, uint64_t part) const;

 private:
  std::byte* slot(int rank, uint64_t which) const;

  std::byte* data_;
  ShmConfig config_;
};

// Returns the bytes of a whole segment.
uint64_t segment_bytes(const ShmConfig& config);

// Reads the config of a segment of this world, and checks the segment's size. Errors: kCorrupt.
Result<ShmConfig> read_config(const shm::Segment& segment, const World& world);

}  // namespace ffdl::comm
