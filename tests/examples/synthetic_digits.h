#pragma once

#include <zlib.h>

#include <string>

#include "digits/dataset.h"
#include "layers/random.h"

namespace digits {

// Returns lines in the format of the digits that any network can learn. Each class lights pixels of
// its own, under noise.
inline std::string synthetic_text(int samples) {
  layers::Random random(1);
  std::string text;
  for (int i = 0; i < samples; ++i) {
    const int label = i % kClasses;
    for (int pixel = 0; pixel < kPixels; ++pixel) {
      const bool lit = pixel / 6 == label;
      text += std::to_string((lit ? 8 : 0) + random.below(9)) + ",";
    }
    text += std::to_string(label) + "\n";
  }
  return text;
}

inline void write_gzipped(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

}  // namespace digits
