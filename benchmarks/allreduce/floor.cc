#include "benchmarks/allreduce/floor.h"

#include <cstddef>

namespace ffdl::bench {

void floor_meet(FloorLines& lines, int rank, uint64_t step) {
  lines.arrived[rank][0].store(step, std::memory_order_release);
  while (lines.arrived[1 - rank][0].load(std::memory_order_acquire) < step) {
  }
}

void floor_add(std::span<float> mine, std::span<float> theirs, int rank) {
  const size_t lines = mine.size() / 16;
  const size_t begin = rank == 0 ? 0 : lines / 2 * 16;
  const size_t end = rank == 0 ? lines / 2 * 16 : mine.size();
  float* __restrict const a = mine.data();
  float* __restrict const b = theirs.data();
  for (size_t i = begin; i < end; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

void accumulate(std::span<float> total, std::span<const float> gradient) {
  float* __restrict const to = total.data();
  const float* __restrict const from = gradient.data();
  for (size_t i = 0; i < total.size(); ++i) to[i] += from[i];
}

}  // namespace ffdl::bench
