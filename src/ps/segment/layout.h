#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ffdl/ps/parameter_server.h"
#include "ps/segment/gradient_buffer.h"
#include "ps/segment/touched_ranges.h"
#include "shm/futex.h"
#include "shm/segment.h"

// The layout of a parameter server's segment. docs/internals/shm-layout.md draws it.
// docs/internals/protocol-ps.md defines its writers and the order of stores. Names: l is a
// learner's slot, k a shard. b in {0, 1} is one of a learner's two buffers. q is a sequence number,
// and its buffer is q & 1.
namespace ffdl::ps {

inline constexpr uint32_t kLayoutVersion = 4;

// The most that one step of a fold updates: a crash repeats at most the copy of one step. Shards
// and arrays consist of whole blocks. Built-in rules take smaller steps (kRunFloats) if possible.
inline constexpr uint64_t kBlockFloats = 512;

// Constant after creation, and protected by a checksum.
struct Config {
  uint64_t parameters;
  uint32_t shards;
  uint32_t learners_max;
  uint32_t partitions;
  uint32_t ranges_max;
  uint32_t rows_max;
  uint32_t state_count;
  DType gradient_type;
  Synchrony synchrony;
  uint32_t staleness;
  NonFinite non_finite;
  float clip_value;
  float clip_norm;
  UpdateRuleOptions rule;
  uint32_t custom_rule;      // 1: the server uses a rule of the user's own
  uint32_t device_plus_one;  // the GPU that folds; 0: none
  LearningRateSchedule schedule;
  char rule_name[64];
  uint64_t checksum;  // XXH3 of all fields above
};

// The server's words. `closing` refuses publications; `ended` means that no more is folded.
struct alignas(64) ServerWords {
  std::atomic<uint64_t> epoch;  // number of owners so far; the lock alone decides ownership
  std::atomic<int64_t> pid;
  std::atomic<uint32_t> closing;
  std::atomic<uint32_t> ended;
  std::atomic<uint64_t> recoveries;
  std::atomic<uint64_t> reclaimed;
  alignas(64) shm::Doorbell work;      // shards sleep here until a publication
  alignas(64) shm::Doorbell progress;  // learners sleep here until a fold
};

// Words of one slot. They are written by its learner. Once the learner is proved dead, the holder
// of the slot's lock writes them.
struct alignas(64) LearnerWords {
  std::atomic<uint64_t> pub;         // highest sequence published; never reset
  std::atomic<uint32_t> publishing;  // 1 between the check of `closing` and the store to pub
  alignas(64) std::atomic<uint32_t> attached;
  std::atomic<uint32_t> incarnation;
  std::atomic<int64_t> pid;
  std::atomic<uint64_t> clock[2];  // mini-batches up to the publication in this buffer
  // The owners of the slot, each a random number; change_owner() and owner_of() use them. On a line
  // of their own, which is written only when a learner attaches.
  alignas(64) std::atomic<uint64_t> owner;
  std::atomic<uint64_t> first_of_owner;  // its first sequence
  std::atomic<uint64_t> owner_before;    // that of the publication before that one
};

struct alignas(64) ShardWords {
  std::atomic<uint64_t> journal;  // learner:8 | block+1:24 | low half of the sequence:32
  alignas(64) std::atomic<uint64_t> seqlock;  // odd while the shard changes
  std::atomic<uint32_t> snapshots;            // requests for a pause by snapshot readers, in total
  std::atomic<uint32_t> snapshots_done;       // requests that have ended
  std::atomic<uint64_t> round_folded;         // last folded round, or batch (batch_sequence())
};

// Fixes the gradients of a round before any shard folds it (Synchrony::kBulk).
struct alignas(64) RoundWords {
  std::atomic<uint64_t> number;
};

enum class GradientForm : uint32_t {
  kDense,
  kSparse,  // only the touched ranges of the buffer belong to the gradient
};

// Metadata of a gradient.
struct Meta {
  uint64_t sequence;
  uint64_t owner;         // that published it
  uint32_t mini_batches;  // added up in the gradient; 0: the gradient is ignored
  uint32_t skipped;       // mini-batches dropped for NaN or Inf; their samples are in the ranges
  uint64_t samples;
  uint64_t base_version;  // version of the weights from which the first of them was computed
  float clip_scale;       // for the whole gradient
  uint32_t ranges;        // number of the slot's ranges in use
  uint32_t touched;       // number of the slot's touched ranges in use; 0 for a dense gradient
  GradientForm form;
  uint64_t checksum;  // XXH3 of the fields above, the ranges and the touched ranges
};

// The ledger is an array of words. An update is a list of new values, so that it can be repeated.
struct LedgerEntry {
  uint64_t word;
  uint64_t value;
};

enum PartitionWord : uint64_t { kCommitted, kSamples, kRepeated, kMissing, kPartitionWords };
enum SlotWord : uint64_t { kMiniBatches, kSkipped, kSlotSamples, kSlotWords };
inline constexpr uint64_t kStalenessWords = 32;

// Offsets of all parts, computed from the Config alone.
struct Offsets {
  explicit Offsets(const Config& config);

  uint64_t blocks;  // in the whole weight vector
  uint64_t padded;  // floats: blocks * kBlockFloats
  uint64_t ledger_words;
  uint64_t ledger_entries_max;  // in one update
  uint64_t server, learners, shards, folded, folded_stride, round, round_sequences;
  uint64_t batch_sequences, ledger;
  uint64_t ledger_shadow, ledger_shadow_stride, meta, ranges, touched;
  uint64_t shadow, weights, state, gradients, gradient_stride;
  uint64_t total;
};

// A typed view of a segment. Copies refer to the same memory.
class Region {
 public:
  Region(std::byte* base, const Config& config) : base_(base), at_(config), config_(config) {}

  const Config& config() const { return config_; }
  const Offsets& offsets() const { return at_; }
  int shards() const { return static_cast<int>(config_.shards); }
  int learners_max() const { return static_cast<int>(config_.learners_max); }

  // Shard k has blocks [begin, end) of the weights.
  uint64_t shard_begin(int k) const {
    return at_.blocks * static_cast<uint64_t>(k) / config_.shards;
  }
  uint64_t shard_end(int k) const { return shard_begin(k + 1); }

  ServerWords& server() const { return at<ServerWords>(at_.server, 0); }
  LearnerWords& learner(int l) const { return at<LearnerWords>(at_.learners, l); }
  ShardWords& shard(int k) const { return at<ShardWords>(at_.shards, k); }
  std::atomic<uint64_t>& folded(int k, int l) const {
    return at<std::atomic<uint64_t>>(at_.folded + at_.folded_stride * static_cast<uint64_t>(k), l);
  }
  RoundWords& round() const { return at<RoundWords>(at_.round, 0); }
  // Returns learner l's sequence in round r, 0 if it does not take part. Two records, by r & 1.
  std::atomic<uint64_t>& round_sequence(uint64_t r, int l) const {
    return at<std::atomic<uint64_t>>(at_.round_sequences,
                                     static_cast<int>(r & 1) * learners_max() + l);
  }
  // Returns learner l's sequence in batch b of shard k, 0 if it does not take part. Two
  // records, by b & 1. A batch is the set of gradients that a shard folds as one change if a GPU
  // folds. Each shard has its own batches.
  std::atomic<uint64_t>& batch_sequence(int k, uint64_t b, int l) const {
    return at<std::atomic<uint64_t>>(at_.batch_sequences,
                                     (2 * k + static_cast<int>(b & 1)) * learners_max() + l);
  }
  bool folds_batches() const { return config_.device_plus_one != 0; }
  std::atomic<uint64_t>& ledger(uint64_t word) const {
    return at<std::atomic<uint64_t>>(at_.ledger, static_cast<int64_t>(word));
  }
  static uint64_t partition_word(uint32_t p, PartitionWord word) {
    return p * kPartitionWords + word;
  }
  uint64_t slot_word(int l, SlotWord word) const {
    return config_.partitions * kPartitionWords + static_cast<uint64_t>(l) * kSlotWords + word;
  }
  uint64_t staleness_word(uint64_t bucket) const {
    return config_.partitions * kPartitionWords + config_.learners_max * kSlotWords + bucket;
  }
  // The shadow of the ledger: a count, then that many entries.
  uint64_t& ledger_shadow_count(uint64_t parity) const {
    return at<uint64_t>(at_.ledger_shadow + at_.ledger_shadow_stride * parity, 0);
  }
  LedgerEntry* ledger_shadow(uint64_t parity) const {
    return &at<LedgerEntry>(at_.ledger_shadow + at_.ledger_shadow_stride * parity + 64, 0);
  }
  Meta& meta(int l, uint64_t q) const {
    return at<Meta>(at_.meta, 2 * l + static_cast<int>(q & 1));
  }
  std::span<SampleRange> ranges(int l, uint64_t q) const {
    const int64_t first = (int64_t{2} * l + static_cast<int64_t>(q & 1)) * config_.ranges_max;
    return {&at<SampleRange>(at_.ranges, first), config_.ranges_max};
  }
  std::span<TouchedRange> touched(int l, uint64_t q) const {
    const int64_t first = (int64_t{2} * l + static_cast<int64_t>(q & 1)) * config_.rows_max;
    return {&at<TouchedRange>(at_.touched, first), config_.rows_max};
  }
  GradientBuffer gradient(int l, uint64_t q) const {
    const uint64_t buffer = 2 * static_cast<uint64_t>(l) + (q & 1);
    return {base_ + at_.gradients + at_.gradient_stride * buffer, config_.gradient_type};
  }
  float* weights() const { return floats(at_.weights, 0); }
  float* state(uint32_t s) const { return floats(at_.state, at_.padded * s); }
  // Plane 0 is for weights, 1 + s for state s.
  float* shadow(int k, uint64_t parity, uint32_t plane) const {
    const uint64_t planes = 1 + config_.state_count;
    return floats(at_.shadow,
                  ((static_cast<uint64_t>(k) * 2 + parity) * planes + plane) * kBlockFloats);
  }

  // Returns the number of published gradients folded into shard k: the version of its weights.
  uint64_t version(int k) const;
  // Returns the version of the slowest shard.
  uint64_t version() const;
  // Returns how many of learner l's gradients every shard has folded.
  uint64_t folded_everywhere(int l) const;
  // Returns how many mini-batches of learner l are in the weights, on the scale that all learners
  // share.
  uint64_t folded_clock(int l) const;

 private:
  template <class T>
  T& at(uint64_t offset, int64_t index) const {
    return reinterpret_cast<T*>(base_ + offset)[index];
  }
  float* floats(uint64_t offset, uint64_t index) const {
    return reinterpret_cast<float*>(base_ + offset) + index;
  }

  std::byte* base_;
  Offsets at_;
  Config config_;
};

// The Config has a fixed offset: after the segment's header.
inline Config& stored_config(std::byte* base) {
  return *reinterpret_cast<Config*>(base + sizeof(shm::SegmentHeader));
}
uint64_t config_checksum(const Config& config);
// Computes the checksum of a Meta and of the ranges and touched ranges that it uses.
uint64_t meta_checksum(const Meta& meta, std::span<const SampleRange> ranges,
                       std::span<const TouchedRange> touched);

// Opens the named segment and checks that it is a complete parameter server of this version.
Result<shm::Segment> open_segment(std::string_view name);
// Returns the layout of an open segment after checking it: a Config that fails is kCorrupt.
Result<Region> read_region(const shm::Segment& segment);

// Makes `owner` the slot's owner. The caller must hold the slot's lock. A kill between two stores
// changes no result of owner_of() for publications that exist.
void change_owner(const Region& region, int l, uint64_t owner);
// Returns the owner that published gradient `sequence`, the newest of slot l. Any process may call
// it while the owner changes.
uint64_t owner_of(const Region& region, int l, uint64_t sequence);
// Checks that the slot's next owner may continue after its newest publication.
// Errors: kCorrupt (that one waits to be folded, and is of no owner of this slot).
Status check_owner(const Region& region, int l);

// Ends the wait for a learner that died attached. Its publications remain and are folded. The
// caller must hold the slot's lock, so that no other process attaches to the slot meanwhile.
void reclaim_dead_learner(const shm::Segment& segment, const Region& region, int l);

}  // namespace ffdl::ps
