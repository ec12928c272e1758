#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ffdl/parameter_server.h"
#include "ps/gradient_buffer.h"
#include "ps/touched.h"
#include "shm/futex.h"
#include "shm/segment.h"

// What lies where in a parameter server's segment. docs/shm-layout.md draws it, docs/protocol-ps.md
// says who writes what and in which order. In the names: l is a learner's slot, k a shard,
// b in {0, 1} one of a learner's two buffers, q a sequence number (its buffer is q & 1).
namespace ffdl::ps {

inline constexpr uint32_t kLayoutVersion = 3;

// The most that one step of a fold updates: a crash repeats at most the copy of one step. Shards
// and arrays are whole blocks. Built-in rules take smaller steps (kRunFloats) where they can.
inline constexpr uint64_t kBlockFloats = 512;

// Constant after creation, guarded by a checksum.
struct Config {
  uint64_t parameters;
  uint32_t shards;
  uint32_t learners_max;
  uint32_t partitions;
  uint32_t ranges_max;
  uint32_t rows_max;
  uint32_t state_count;
  GradientType gradient_type;
  Synchrony synchrony;
  uint32_t staleness;
  NonFinite non_finite;
  float clip_value;
  float clip_norm;
  UpdateRuleOptions rule;
  uint32_t custom_rule;      // 1: the server was given a rule of the user's own
  uint32_t device_plus_one;  // of the GPU that folds; 0: none does
  LearningRateSchedule schedule;
  char rule_name[64];
  uint64_t checksum;  // XXH3 of all fields above
};

// Words of the server. `closing` refuses publications; `ended` says that nothing will be folded.
struct alignas(64) ServerWords {
  std::atomic<uint64_t> epoch;  // of owners; the lock, not this word, says who owns
  std::atomic<int64_t> pid;
  std::atomic<uint32_t> closing;
  std::atomic<uint32_t> ended;
  std::atomic<uint64_t> recoveries;
  std::atomic<uint64_t> reclaimed;
  alignas(64) shm::Doorbell work;      // shards sleep here: something was published
  alignas(64) shm::Doorbell progress;  // learners sleep here: something was folded
};

// Words of one slot. Written by its learner, and by whoever holds the slot's lock once the learner
// is proved dead.
struct alignas(64) LearnerWords {
  std::atomic<uint64_t> pub;         // highest sequence published; never reset
  std::atomic<uint32_t> publishing;  // 1 between the look at `closing` and the store to pub
  alignas(64) std::atomic<uint32_t> attached;
  std::atomic<uint32_t> incarnation;
  std::atomic<int64_t> pid;
  std::atomic<uint64_t> clock[2];  // mini-batches up to the publication in this buffer
};

struct alignas(64) ShardWords {
  std::atomic<uint64_t> journal;  // learner:8 | block+1:24 | low half of the sequence:32
  alignas(64) std::atomic<uint64_t> seqlock;  // odd while the shard changes
  std::atomic<uint32_t> snapshots;            // snapshot readers that asked for a pause, ever
  std::atomic<uint32_t> snapshots_done;       // and those that have had it
  std::atomic<uint64_t> round_folded;         // last round folded, or batch (batch_sequence())
};

// Synchrony::kBulk: which gradients make up a round, fixed before any shard folds it.
struct alignas(64) RoundWords {
  std::atomic<uint64_t> number;
};

enum class GradientForm : uint32_t {
  kDense,
  kSparse,  // only the touched ranges of the buffer belong to the gradient
};

// What travels with a gradient.
struct Meta {
  uint64_t sequence;
  uint32_t mini_batches;  // added up in the gradient; 0: the gradient is not to be looked at
  uint32_t skipped;       // mini-batches dropped for NaN or Inf; their samples are in the ranges
  uint64_t samples;
  uint64_t base_version;  // of the weights that the first of them was computed from
  float clip_scale;       // of the whole gradient
  uint32_t ranges;        // how many of the slot's ranges are used
  uint32_t touched;       // how many of the slot's touched ranges; 0 for a dense gradient
  GradientForm form;
  uint64_t checksum;  // XXH3 of the fields above, the ranges and the touched ranges
};

// The ledger is an array of words; an update is a list of new values, so that it can be repeated.
struct LedgerEntry {
  uint64_t word;
  uint64_t value;
};

enum PartitionWord : uint64_t { kCommitted, kSamples, kRepeated, kMissing, kPartitionWords };
enum SlotWord : uint64_t { kMiniBatches, kSkipped, kSlotSamples, kSlotWords };
inline constexpr uint64_t kStalenessWords = 32;

// Places of everything, computed from the Config alone.
struct Offsets {
  explicit Offsets(const Config& config);

  uint64_t blocks;  // of the whole weight vector
  uint64_t padded;  // floats: blocks * kBlockFloats
  uint64_t ledger_words;
  uint64_t ledger_entries_max;  // of one update
  uint64_t server, learners, shards, folded, folded_stride, round, round_sequences;
  uint64_t batch_sequences, ledger;
  uint64_t ledger_shadow, ledger_shadow_stride, meta, ranges, touched;
  uint64_t shadow, weights, state, gradients, gradient_stride;
  uint64_t total;
};

// A segment seen through its layout. Copies refer to the same memory.
class Region {
 public:
  Region(std::byte* base, const Config& config) : base_(base), at_(config), config_(config) {}

  const Config& config() const { return config_; }
  const Offsets& offsets() const { return at_; }
  int shards() const { return static_cast<int>(config_.shards); }
  int learners_max() const { return static_cast<int>(config_.learners_max); }

  // Blocks [begin, end) of the weights belong to shard k.
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
  // Sequence of learner l in round r, 0 when it is no member. Two records, by r & 1.
  std::atomic<uint64_t>& round_sequence(uint64_t r, int l) const {
    return at<std::atomic<uint64_t>>(at_.round_sequences,
                                     static_cast<int>(r & 1) * learners_max() + l);
  }
  // Sequence of learner l in batch b of shard k, 0 when it is no member. Two records, by b & 1. A
  // batch is what a shard folds as one change where a GPU folds; no two shards have the same ones.
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

  // Published gradients folded into shard k: the version of its weights.
  uint64_t version(int k) const;
  // Of the slowest shard.
  uint64_t version() const;
  // Learner l's gradients that every shard has folded.
  uint64_t folded_everywhere(int l) const;
  // Mini-batches of learner l that are in the weights, on the scale that all learners share.
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

// The Config's place is fixed: behind the segment's header.
inline Config& stored_config(std::byte* base) {
  return *reinterpret_cast<Config*>(base + sizeof(shm::SegmentHeader));
}
uint64_t config_checksum(const Config& config);
// Checksum of a Meta with what it uses of its slot's ranges and touched ranges.
uint64_t meta_checksum(const Meta& meta, std::span<const SampleRange> ranges,
                       std::span<const TouchedRange> touched);

// Opens the named segment and checks that it is a whole parameter server of this version.
Result<shm::Segment> open_segment(std::string_view name);
// The layout of an open segment, checked: a Config that fails is kCorrupt.
Result<Region> read_region(const shm::Segment& segment);

// A learner that died attached is waited for no more. By who holds its lock, so that nobody else
// attaches to the slot meanwhile; what it published stays and is folded.
void reclaim_dead_learner(const shm::Segment& segment, const Region& region, int l);

}  // namespace ffdl::ps
