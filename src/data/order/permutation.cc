#include "data/order/permutation.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace ffdl::data {
namespace {

constexpr size_t kPiece = 512;  // stays in the first-level cache

int bits_of(uint64_t size) { return static_cast<int>(std::bit_width(size - 1)); }

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t key) : size_(size) {
  rounds_.right_bits = bits_of(size) - bits_of(size) / 2;
  rounds_.right_mask = (uint64_t{1} << rounds_.right_bits) - 1;
  rounds_.left_mask = (uint64_t{1} << (bits_of(size) / 2)) - 1;
  for (size_t i = 0; i < kPermutationRounds; ++i) rounds_.keys[i] = mix(key + i);
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

void Permutation::at_each(uint64_t first, std::span<uint64_t> values) const {
  for (size_t begin = 0; begin < values.size(); begin += kPiece) {
    const auto piece = values.subspan(begin, std::min(kPiece, values.size() - begin));
    std::iota(piece.begin(), piece.end(), first + begin);
    map_piece(piece);
  }
}

void Permutation::map_each(std::span<uint64_t> values) const {
  for (size_t begin = 0; begin < values.size(); begin += kPiece) {
    map_piece(values.subspan(begin, std::min(kPiece, values.size() - begin)));
  }
}

void Permutation::map_piece(std::span<uint64_t> piece) const {
  walk_rounds(rounds_, piece);
  if (std::has_single_bit(size_)) return;
  // Repeats the pass for numbers that are not below size. Each pass completes at least half of
  // them.
  std::array<uint64_t, kPiece> again;
  std::array<uint32_t, kPiece> places;
  size_t count = 0;
  for (size_t i = 0; i < piece.size(); ++i) {
    again[count] = piece[i];
    places[count] = static_cast<uint32_t>(i);
    count += piece[i] >= size_ ? 1 : 0;
  }
  while (count > 0) {
    walk_rounds(rounds_, std::span(again).first(count));
    size_t left = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t value = again[i];
      const uint32_t place = places[i];
      piece[place] = value;
      again[left] = value;
      places[left] = place;
      left += value >= size_ ? 1 : 0;
    }
    count = left;
  }
}

uint64_t Permutation::once(uint64_t number) const {
  uint64_t right = number & rounds_.right_mask;
  uint64_t left = number >> rounds_.right_bits;
  for (size_t i = 0; i < kPermutationRounds; i += 2) {
    left ^= mix(right ^ rounds_.keys[i]) & rounds_.left_mask;
    right ^= mix(left ^ rounds_.keys[i + 1]) & rounds_.right_mask;
  }
  return left << rounds_.right_bits | right;
}

uint64_t Permutation::once_back(uint64_t number) const {
  uint64_t right = number & rounds_.right_mask;
  uint64_t left = number >> rounds_.right_bits;
  for (size_t i = kPermutationRounds; i > 0; i -= 2) {
    right ^= mix(left ^ rounds_.keys[i - 1]) & rounds_.right_mask;
    left ^= mix(right ^ rounds_.keys[i - 2]) & rounds_.left_mask;
  }
  return left << rounds_.right_bits | right;
}

}  // namespace ffdl::data
