#include "ps/segment/layout.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/errors.h"
#include "base/log.h"

namespace ffdl::ps {
namespace {

static_assert(std::is_trivially_copyable_v<Config> && sizeof(Config) == 200);
static_assert(std::is_trivially_copyable_v<Meta> && sizeof(Meta) == 64);
static_assert(sizeof(ServerWords) == 192 && sizeof(LearnerWords) == 192 &&
              sizeof(ShardWords) == 128);
static_assert(sizeof(SampleRange) == 24 && sizeof(LedgerEntry) == 16 && sizeof(TouchedRange) == 16);
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8);

constexpr uint64_t kPage = 4096;

class Places {
 public:
  uint64_t take(uint64_t bytes, uint64_t alignment = 64) {
    const uint64_t begin = (next_ + alignment - 1) / alignment * alignment;
    next_ = begin + bytes;
    return begin;
  }
  uint64_t end() const { return (next_ + kPage - 1) / kPage * kPage; }

 private:
  uint64_t next_ = sizeof(shm::SegmentHeader) + sizeof(Config);
};

}  // namespace

Offsets::Offsets(const Config& config) {
  const uint64_t learner_count = config.learners_max;
  const uint64_t shard_count = config.shards;
  blocks = (config.parameters + kBlockFloats - 1) / kBlockFloats;
  padded = blocks * kBlockFloats;
  ledger_words = config.partitions * kPartitionWords + learner_count * kSlotWords + kStalenessWords;
  // A gradient changes kPartitionWords words per range, kSlotWords of its slot, and one bucket. A
  // round or a batch has at most one such gradient per learner.
  const bool many = config.synchrony == Synchrony::kBulk || config.device_plus_one != 0;
  const uint64_t gradients_max = many ? learner_count : 1;
  ledger_entries_max = gradients_max * (config.ranges_max * kPartitionWords + kSlotWords + 1);

  Places places;
  server = places.take(sizeof(ServerWords));
  learners = places.take(learner_count * sizeof(LearnerWords));
  shards = places.take(shard_count * sizeof(ShardWords));
  folded_stride = (learner_count * sizeof(uint64_t) + 63) / 64 * 64;
  folded = places.take(shard_count * folded_stride);
  round = places.take(sizeof(RoundWords));
  round_sequences = places.take(2 * learner_count * sizeof(uint64_t));
  const uint64_t batch_records = config.device_plus_one != 0 ? 2 * shard_count : 0;
  batch_sequences = places.take(batch_records * learner_count * sizeof(uint64_t));
  ledger = places.take(ledger_words * sizeof(uint64_t));
  ledger_shadow_stride = (64 + ledger_entries_max * sizeof(LedgerEntry) + 63) / 64 * 64;
  ledger_shadow = places.take(2 * ledger_shadow_stride);
  meta = places.take(2 * learner_count * sizeof(Meta));
  ranges = places.take(2 * learner_count * config.ranges_max * sizeof(SampleRange));
  touched = places.take(2 * learner_count * config.rows_max * sizeof(TouchedRange));
  const uint64_t planes = 1 + config.state_count;
  shadow = places.take(shard_count * 2 * planes * kBlockFloats * sizeof(float), kPage);
  weights = places.take(padded * sizeof(float), kPage);
  state = places.take(config.state_count * padded * sizeof(float), kPage);
  gradient_stride = padded * element_bytes(config.gradient_type);
  gradients = places.take(2 * learner_count * gradient_stride, kPage);
  total = places.end();
}

uint64_t Region::version(int k) const {
  uint64_t sum = 0;
  for (int l = 0; l < learners_max(); ++l) sum += folded(k, l).load(std::memory_order_acquire);
  return sum;
}

uint64_t Region::version() const {
  uint64_t least = version(0);
  for (int k = 1; k < shards(); ++k) least = std::min(least, version(k));
  return least;
}

uint64_t Region::folded_everywhere(int l) const {
  uint64_t least = folded(0, l).load();
  for (int k = 1; k < shards(); ++k) least = std::min(least, folded(k, l).load());
  return least;
}

uint64_t Region::folded_clock(int l) const {
  while (true) {
    const uint64_t folded = folded_everywhere(l);
    const uint64_t clock = learner(l).clock[folded & 1].load(std::memory_order_acquire);
    // The clock's place is used again only after a later fold.
    if (folded_everywhere(l) == folded) return clock;
  }
}

uint64_t config_checksum(const Config& config) {
  return XXH3_64bits(&config, offsetof(Config, checksum));
}

uint64_t meta_checksum(const Meta& meta, std::span<const SampleRange> ranges,
                       std::span<const TouchedRange> touched) {
  const uint64_t seed = XXH3_64bits(&meta, offsetof(Meta, checksum));
  uint64_t sum = seed;
  for (const SampleRange& range : ranges) {
    // Hashed field by field, as the padding of a SampleRange is undefined.
    const uint64_t fields[3] = {range.partition, range.begin, range.end};
    sum = XXH3_64bits_withSeed(fields, sizeof fields, sum);
  }
  return XXH3_64bits_withSeed(touched.data(), touched.size_bytes(), sum);
}

Result<shm::Segment> open_segment(std::string_view name) {
  return shm::Segment::open(name, shm::SegmentKind::kParameterServer, kLayoutVersion);
}

Result<Region> read_region(const shm::Segment& segment) {
  const auto corrupt = [&](std::string_view what) {
    return base::make_error(
        StatusCode::kCorrupt,
        "open parameter server '{}': {}; something wrote over the segment: remove "
        "it ('ffdl doctor') and restore from a checkpoint",
        segment.name(), what);
  };
  if (segment.bytes() < sizeof(shm::SegmentHeader) + sizeof(Config)) {
    return corrupt("the segment is too small for its configuration");
  }
  Config config;
  std::memcpy(&config, &stored_config(segment.data()), sizeof config);
  if (config.checksum != config_checksum(config)) {
    return corrupt("its configuration fails the checksum");
  }
  if (config.shards == 0 || config.parameters == 0 || Offsets(config).total != segment.bytes()) {
    return corrupt("its configuration does not fit the segment's size");
  }
  return Region(segment.data(), config);
}

void change_owner(const Region& region, int l, uint64_t owner) {
  LearnerWords& words = region.learner(l);
  const uint64_t pub = words.pub.load(std::memory_order_acquire);
  // In this order: pairs with the loads of owner_of().
  words.owner_before.store(owner_of(region, l, pub), std::memory_order_release);
  words.first_of_owner.store(pub + 1, std::memory_order_release);
  words.owner.store(owner, std::memory_order_release);
}

uint64_t owner_of(const Region& region, int l, uint64_t sequence) {
  const LearnerWords& words = region.learner(l);
  const uint64_t owner = words.owner.load(std::memory_order_acquire);
  const uint64_t first = words.first_of_owner.load(std::memory_order_acquire);
  const uint64_t before = words.owner_before.load(std::memory_order_acquire);
  return sequence < first ? before : owner;
}

Status check_owner(const Region& region, int l) {
  const uint64_t pub = region.learner(l).pub.load(std::memory_order_acquire);
  if (region.folded_everywhere(l) == pub) return {};  // a server has compared it
  if (region.meta(l, pub).owner == owner_of(region, l, pub)) return {};
  return base::make_error(StatusCode::kCorrupt,
                          "continue in slot {}: gradient {} was published by no owner of the slot; "
                          "something wrote over the segment: restore from a checkpoint",
                          l, pub);
}

void reclaim_dead_learner(const shm::Segment& segment, const Region& region, int l) {
  LearnerWords& words = region.learner(l);
  if (words.attached.load(std::memory_order_relaxed) == 0) return;
  words.publishing.store(0, std::memory_order_relaxed);
  // Before the slot is seen to be free. A kill in between counts the death twice.
  region.server().reclaimed.fetch_add(1);
  words.attached.store(0, std::memory_order_seq_cst);
  region.server().progress.ring();
  region.server().work.ring();
  base::log_info("parameter server '{}': learner {} (pid {}) died; its slot is free",
                 segment.name(), l, words.pid.load());
}

}  // namespace ffdl::ps
