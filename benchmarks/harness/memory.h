#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ffdl::bench {

// Zeroed memory of whole pages, all of them touched, in pages of the size that any program gets
// without asking: limits and peers then differ from a segment by what is done, not by the page
// table. Ends the program when there is none.
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

// `count` floats with a small value in each, so that no arithmetic meets a denormal.
Memory filled_floats(size_t count, float value);

}  // namespace ffdl::bench
