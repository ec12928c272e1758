#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ffdl/status.h"

// Short texts, each with its intent, in the format of CLINC150.
namespace nlc {

struct Sentences {
  std::vector<std::string> texts;
  std::vector<int> labels;  // indices of Corpus::labels

  std::size_t size() const { return labels.size(); }
};

struct Corpus {
  Sentences train;
  Sentences validation;
  Sentences test;
  std::vector<std::string> labels;  // sorted
};

// Reads a JSON object with keys `train`, `val` and `test` that hold lists of [text, label]. Ignores
// other keys, such as CLINC150's out-of-scope sets.
// Errors: kNotFound; kCorrupt for any other content, with the key and the entry.
ffdl::Result<Corpus> load_corpus(const std::string& path);

}  // namespace nlc
