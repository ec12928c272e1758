#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace layers {

// A small generator (SplitMix64). Unlike the standard library's distributions it returns the same
// numbers on every platform, so that two processes shuffle alike.
// Threads: one at a time.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  // Returns a number in [0, bound). The bias of the remainder is below bound / 2^64.
  uint64_t below(uint64_t bound) { return next() % bound; }

  // Returns a number in [low, high).
  float uniform(float low, float high) {
    const auto unit = static_cast<float>(next() >> 40) * 0x1p-24F;
    return low + (high - low) * unit;
  }

  template <class T>
  void shuffle(std::span<T> items) {
    for (uint64_t left = items.size(); left > 1; --left) {
      std::swap(items[left - 1], items[below(left)]);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace layers
