#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/mix.h"
#include "data/permutation_kernels.h"

namespace ffdl::data {

using base::mix;

// A permutation of [0, size) that is computed and not stored, so that an epoch can go on at any
// point of it at once. It is part of what a saved state means, and must never change:
//   An index is a number of b = bit_width(size - 1) bits, the lower b - b / 2 of which are its
//   right part, the others its left. In round i of 8 one part is changed by the other: in even
//   rounds the left ^= mix(right ^ k[i]), in odd rounds the right ^= mix(left ^ k[i]), cut to its
//   bits; with k[i] = mix(key + i). All this is repeated until the number is below size.
class Permutation {
 public:
  // size > 0.
  Permutation(uint64_t size, uint64_t key);

  uint64_t at(uint64_t index) const;
  uint64_t index_of(uint64_t value) const;  // at(index_of(value)) == value

  // values[i] = at(first + i), several at a time.
  void at_each(uint64_t first, std::span<uint64_t> values) const;
  // values[i] = at(values[i]), several at a time.
  void map_each(std::span<uint64_t> values) const;

 private:
  void map_piece(std::span<uint64_t> piece) const;
  uint64_t once(uint64_t number) const;
  uint64_t once_back(uint64_t number) const;

  const uint64_t size_;
  PermutationRounds rounds_{};
};

}  // namespace ffdl::data
