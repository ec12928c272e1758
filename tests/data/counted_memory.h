#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <span>

#include "ffdl/data/sample_batch.h"

namespace ffdl::testing {

// A user's memory that counts its allocations, up to a limit.
class CountedMemory final : public SampleMemory {
 public:
  explicit CountedMemory(size_t limit = ~size_t{0}) : limit_(limit) {}

  std::span<std::byte> allocate(size_t bytes) override {
    const size_t size = (bytes + 15) / 16 * 16;
    if (size > limit_ - given) return {};
    ++calls;
    given += size;
    return {static_cast<std::byte*>(std::aligned_alloc(16, size)), size};
  }
  void give_back(std::span<std::byte> memory) override {
    given -= memory.size();
    std::free(memory.data());
  }

  std::atomic<size_t> given = 0;  // bytes allocated at present
  std::atomic<int> calls = 0;     // calls that allocated memory

 private:
  const size_t limit_;
};

}  // namespace ffdl::testing
