#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "layers/random.h"

namespace nlc {

inline constexpr int kTableBits = 17;
inline constexpr uint32_t kTableRows = 1U << kTableBits;
inline constexpr std::size_t kFeaturesMax = 512;  // per text, about 80 words; the rest is cut

// The features of a batch of texts, text after text. Each is a row of the embedding table and the
// factor of that row.
struct Features {
  std::vector<uint64_t> rows;
  std::vector<float> factors;
  std::vector<std::size_t> ends;  // of each text's features

  int texts() const { return static_cast<int>(ends.size()); }
  void clear();
};

// Adds the features of one text: its words, its pairs of adjacent words, and the runs of two to
// four letters in its words. They are hashed to rows of a table of 2^table_bits. Each of the three
// kinds has the same weight in a text, however long it is. Case does not count; bytes beyond ASCII
// are letters.
void append_features(std::string_view text, Features& features, int table_bits = kTableBits);

// Drops each feature with this probability and scales the others up, for training.
void drop_features(float probability, layers::Random& random, Features& features);

}  // namespace nlc
