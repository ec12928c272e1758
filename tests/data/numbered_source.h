#pragma once

#include <atomic>
#include <cstring>
#include <optional>

#include "base/mutex.h"
#include "ffdl/data/data_source.h"

namespace ffdl::testing {

// A user's source that can be made to wait and to fail. Sample i repeats the number i, in 8 bytes
// or more.
class NumberedSource : public DataSource {
 public:
  explicit NumberedSource(uint64_t samples, size_t numbers = 1)
      : samples_(samples), numbers_(numbers) {}

  uint64_t samples() const override { return samples_; }
  SampleFormat format() const override { return {"<u8", {}, numbers_ * sizeof(uint64_t), true}; }
  Status read(std::span<const uint64_t> indices, SampleBatch& batch) const override {
    {
      const base::MutexLock lock(mutex_);
      while (is_closed_) opened_.wait(mutex_);
    }
    for (const uint64_t index : indices) {
      if (index == fails_at) return Status(StatusCode::kUnavailable, "the disk is away");
      if (index == skips_at) {
        batch.skip();
        continue;
      }
      const auto bytes = batch.allocate(numbers_ * sizeof index);
      for (size_t i = 0; i < numbers_; ++i) {
        std::memcpy(bytes.data() + i * sizeof index, &index, sizeof index);
      }
      batch.add(bytes);
    }
    ++reads;
    return {};
  }

  // Blocks all reads until open().
  void close() {
    const base::MutexLock lock(mutex_);
    is_closed_ = true;
  }
  void open() {
    const base::MutexLock lock(mutex_);
    is_closed_ = false;
    opened_.notify_all();
  }

  std::atomic<uint64_t> fails_at = ~uint64_t{0};
  std::atomic<uint64_t> skips_at = ~uint64_t{0};
  mutable std::atomic<int> reads = 0;

 private:
  const uint64_t samples_;
  const size_t numbers_;
  mutable base::Mutex mutex_;
  mutable base::Condition opened_;
  bool is_closed_ FFDL_GUARDED_BY(mutex_) = false;
};

inline uint64_t number_of(std::span<const std::byte> sample) {
  uint64_t number = 0;
  std::memcpy(&number, sample.data(), sizeof number);
  return number;
}

}  // namespace ffdl::testing
