#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "ps/segment/layout.h"

namespace ffdl::ps {

// A server's memory without a segment, shared with forked children. Publishes as a learner does.
class TestRegion {
 public:
  explicit TestRegion(Config config)
      : bytes_(Offsets(config).total),
        memory_(static_cast<std::byte*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))),
        region_(memory_, config) {}
  ~TestRegion() { munmap(memory_, bytes_); }
  TestRegion(const TestRegion&) = delete;
  TestRegion& operator=(const TestRegion&) = delete;

  std::span<std::byte> bytes() const { return {memory_, bytes_}; }

  static Config small_config(uint32_t shards, uint32_t state_count) {
    Config config = {};
    config.parameters = 4 * kBlockFloats + 17;  // the last block is not full
    config.shards = shards;
    config.learners_max = 3;
    config.partitions = 3;
    config.ranges_max = 4;
    config.rows_max = 40;
    config.state_count = state_count;
    config.gradient_type = DType::kFloat32;
    config.rule.learning_rate = 0.5F;
    return config;
  }

  const Region& operator*() const { return region_; }
  const Region* operator->() const { return &region_; }

  // Returns a value that depends on learner, sequence and place.
  static float element(int l, uint64_t q, uint64_t i) {
    return static_cast<float>((i * 7 + q * 13 + static_cast<uint64_t>(l) * 29) % 11) - 5;
  }

  // Publishes a gradient of such elements; with `touched` a sparse one.
  void publish(int l, std::vector<SampleRange> ranges, uint32_t mini_batches = 1,
               std::optional<std::vector<TouchedRange>> touched = std::nullopt) {
    const Region& region = region_;
    const uint64_t q = region.learner(l).pub + 1;
    for (uint64_t i = 0; i < region.config().parameters; ++i) {
      const float value = element(l, q, i);
      region.gradient(l, q).write(i, {&value, 1});
    }
    Meta& meta = region.meta(l, q);
    meta = {};
    meta.sequence = q;
    meta.mini_batches = mini_batches;
    meta.skipped = mini_batches == 0 ? 1 : 0;
    meta.clip_scale = 1;
    meta.ranges = static_cast<uint32_t>(ranges.size());
    for (const SampleRange& range : ranges) meta.samples += range.end - range.begin;
    std::copy(ranges.begin(), ranges.end(), region.ranges(l, q).begin());
    if (touched) {
      meta.form = GradientForm::kSparse;
      meta.touched = static_cast<uint32_t>(touched->size());
      std::copy(touched->begin(), touched->end(), region.touched(l, q).begin());
    }
    meta.checksum = meta_checksum(meta, region.ranges(l, q).first(meta.ranges),
                                  region.touched(l, q).first(meta.touched));
    region.learner(l).pub = q;
  }

  // Returns everything that a fold changes: weights, state, ledger.
  std::vector<uint64_t> contents() const {
    const Region& region = region_;
    std::vector<uint64_t> all;
    const auto add = [&](const float* values) {
      for (uint64_t i = 0; i < region.offsets().padded; ++i) {
        uint32_t bits = 0;
        std::memcpy(&bits, values + i, sizeof bits);
        all.push_back(bits);
      }
    };
    add(region.weights());
    for (uint32_t s = 0; s < region.config().state_count; ++s) add(region.state(s));
    for (uint64_t w = 0; w < region.offsets().ledger_words; ++w) all.push_back(region.ledger(w));
    return all;
  }

 private:
  uint64_t bytes_;
  std::byte* memory_;
  Region region_;
};

}  // namespace ffdl::ps
