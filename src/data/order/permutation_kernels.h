#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ffdl::data {

inline constexpr size_t kPermutationRounds = 8;

// Parameters of one pass through the rounds of a Permutation.
struct PermutationRounds {
  int right_bits = 0;
  uint64_t right_mask = 0;
  uint64_t left_mask = 0;
  std::array<uint64_t, kPermutationRounds> keys{};
};

// Passes each number once through all rounds, in place. Vectorised (Highway). The results equal
// those of Permutation::at() for one number on every processor.
void walk_rounds(const PermutationRounds& rounds, std::span<uint64_t> numbers);

}  // namespace ffdl::data
