#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "layers/random.h"

namespace nlc {

// Returns a file in CLINC150's format, without its out-of-scope sets. Each label has a verb and a
// noun that identify it, among words without meaning.
inline nlohmann::json synthetic_sentences(int labels) {
  layers::Random random(1);
  const auto filler = [&] { return " word" + std::to_string(random.below(50)); };
  nlohmann::json file;
  for (const auto& [key, per_label] : {std::pair{"train", 40}, {"val", 10}, {"test", 10}}) {
    for (int i = 0; i < labels * per_label; ++i) {
      const auto label = std::to_string(i % labels);
      file[key].push_back({filler() + " verb" + label + filler() + " noun" + label + filler() + "?",
                           "label" + label});
    }
  }
  return file;
}

}  // namespace nlc
