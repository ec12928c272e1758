#include "data/permutation.h"

#include <bit>
#include <cstddef>

namespace ffdl::data {
namespace {

int bits_of(uint64_t size) { return static_cast<int>(std::bit_width(size - 1)); }

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t key)
    : size_(size),
      right_bits_(bits_of(size) - bits_of(size) / 2),
      right_mask_((uint64_t{1} << right_bits_) - 1),
      left_mask_((uint64_t{1} << (bits_of(size) / 2)) - 1) {
  for (size_t i = 0; i < kRounds; ++i) keys_[i] = mix(key + i);
}

uint64_t Permutation::at(uint64_t index) const {
  do {
    index = once(index);
  } while (index >= size_);
  return index;
}

uint64_t Permutation::index_of(uint64_t value) const {
  do {
    value = once_back(value);
  } while (value >= size_);
  return value;
}

uint64_t Permutation::once(uint64_t number) const {
  uint64_t right = number & right_mask_;
  uint64_t left = number >> right_bits_;
  for (size_t i = 0; i < kRounds; i += 2) {
    left ^= mix(right ^ keys_[i]) & left_mask_;
    right ^= mix(left ^ keys_[i + 1]) & right_mask_;
  }
  return left << right_bits_ | right;
}

uint64_t Permutation::once_back(uint64_t number) const {
  uint64_t right = number & right_mask_;
  uint64_t left = number >> right_bits_;
  for (size_t i = kRounds; i > 0; i -= 2) {
    right ^= mix(left ^ keys_[i - 1]) & right_mask_;
    left ^= mix(right ^ keys_[i - 2]) & left_mask_;
  }
  return left << right_bits_ | right;
}

}  // namespace ffdl::data
