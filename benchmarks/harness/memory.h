#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ffdl::bench {

// Zeroed memory of whole pages, all of them touched. The pages have the size that a program gets by
// default. So limits and peers differ from a segment by their work, not by the page table. Ends the
// program when there is no memory.
class Memory {
 public:
  enum class Sharing { kPrivate, kWithChildren };

  explicit Memory(size_t bytes, Sharing sharing = Sharing::kPrivate);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  std::span<float> floats() const { return {static_cast<float*>(data_), bytes_ / sizeof(float)}; }

 private:
  void* data_;
  size_t bytes_;
};

// Returns `count` floats with a small value in each, so that no arithmetic meets a denormal.
Memory filled_floats(size_t count, float value);

}  // namespace ffdl::bench
