#include "benchmarks/harness/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ffdl::bench {

Memory::Memory(size_t bytes, Sharing sharing) : data_(nullptr), bytes_(bytes) {
  const int kind = sharing == Sharing::kPrivate ? MAP_PRIVATE : MAP_SHARED;
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) {
    fmt::print(stderr, "allocate {} bytes: {}; free some memory\n", bytes, std::strerror(errno));
    std::exit(1);
  }
  std::memset(data_, 0, bytes);
}

Memory::~Memory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Memory::Memory(Memory&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
  other.data_ = nullptr;
}

Memory filled_floats(size_t count, float value) {
  Memory memory(count * sizeof(float));
  std::ranges::fill(memory.floats(), value);
  return memory;
}

}  // namespace ffdl::bench
