#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ffdl::data {

inline constexpr size_t kPermutationRounds = 8;

// What one walk through the rounds of a Permutation needs.
struct PermutationRounds {
  int right_bits = 0;
  uint64_t right_mask = 0;
  uint64_t left_mask = 0;
  std::array<uint64_t, kPermutationRounds> keys{};
};

// Takes each number once through all rounds, in place; vectorised (Highway), the same on every
// processor as Permutation::at() of one number.
void walk_rounds(const PermutationRounds& rounds, std::span<uint64_t> numbers);

}  // namespace ffdl::data
