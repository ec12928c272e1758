#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ffdl/status.h"

// Handwritten digits: 8 x 8 pixels of 0 to 16 and a label, as scikit-learn ships them.
namespace digits {

inline constexpr int kSide = 8;
inline constexpr int kPixels = kSide * kSide;
inline constexpr int kClasses = 10;

struct Samples {
  std::vector<float> pixels;  // kPixels per sample, in [-1, 1]
  std::vector<int> labels;

  std::size_t size() const { return labels.size(); }
  std::span<const float> image(std::size_t index) const {
    return std::span(pixels).subspan(index * kPixels, kPixels);
  }
  void append(std::span<const float> image, int label);
  void clear();
};

// Reads a CSV file, gzipped or not: 64 pixels and the label on each line.
// Errors: kNotFound; kCorrupt for a truncated file, or a malformed line, whose number is named.
ffdl::Result<Samples> load_samples(const std::string& path);

struct Split {
  Samples train;
  Samples validation;  // used for every choice
  Samples test;        // used once, after the training
};

// Splits the samples: 70 % to train, 10 % to validate, the rest to test, shuffled. Every process
// and run gets the same split: otherwise test samples could influence the choice of a training's
// settings.
// Errors: kInvalidArgument when there are too few samples for three parts.
ffdl::Result<Split> split_samples(const Samples& all);

}  // namespace digits
