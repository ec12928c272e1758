#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash_mix.h"
#include "data/order/permutation_kernels.h"

namespace ffdl::data {

using base::mix;

// A permutation of [0, size) that is computed and not stored, so that an epoch can continue at any
// point at once. It defines the meaning of a saved state and must never change.
//   An index is a number of b = bit_width(size - 1) bits: the lower b - b / 2 are its right part,
//   the others its left part. Each of 8 rounds changes one part by the other. In an even round i,
//   left ^= mix(right ^ k[i]). In an odd round i, right ^= mix(left ^ k[i]). The result is cut to
//   the bits of its part; k[i] = mix(key + i). All rounds are repeated until the number is below
//   size.
class Permutation {
 public:
  // Requires size > 0.
  Permutation(uint64_t size, uint64_t key);

  uint64_t at(uint64_t index) const;
  uint64_t index_of(uint64_t value) const;  // at(index_of(value)) == value

  // Sets values[i] = at(first + i), several at a time.
  void at_each(uint64_t first, std::span<uint64_t> values) const;
  // Sets values[i] = at(values[i]), several at a time.
  void map_each(std::span<uint64_t> values) const;

 private:
  void map_piece(std::span<uint64_t> piece) const;
  uint64_t once(uint64_t number) const;
  uint64_t once_back(uint64_t number) const;

  const uint64_t size_;
  PermutationRounds rounds_{};
};

}  // namespace ffdl::data
