#include "nlc/corpus.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace nlc {
namespace {

using ffdl::Result;
using ffdl::Status;
using ffdl::StatusCode;
using nlohmann::json;

constexpr const char* kAdvice = "name a file of the format of CLINC150's data_full.json";

Status corrupt(const std::string& path, const std::string& observed) {
  return Status(StatusCode::kCorrupt,
                fmt::format("read sentences '{}': {}; {}", path, observed, kAdvice));
}

Result<json> read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return Status(StatusCode::kNotFound,
                  fmt::format("open sentences '{}': {}; {}", path, std::strerror(errno), kAdvice));
  }
  try {
    json object = json::parse(file);
    if (object.is_object()) return object;
    return corrupt(path, fmt::format("a JSON {} instead of an object", object.type_name()));
  } catch (const json::exception& error) {
    return corrupt(path, error.what());
  }
}

bool is_entry(const json& entry) {
  return entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string();
}

// Numbers the labels that occur, in alphabetical order.
class LabelNumbers {
 public:
  explicit LabelNumbers(const json& entries) {
    for (const json& entry : entries) {
      if (is_entry(entry)) numbers_.emplace(entry[1], 0);
    }
    int next = 0;
    for (auto& [label, number] : numbers_) number = next++;
  }

  // Returns -1 for an unknown label.
  int find(const std::string& label) const {
    const auto found = numbers_.find(label);
    return found == numbers_.end() ? -1 : found->second;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [label, number] : numbers_) names.push_back(label);
    return names;
  }

 private:
  std::map<std::string, int> numbers_;
};

// Returns an empty text if the list is valid, else the error.
std::string parse_list(const json& list, const LabelNumbers& numbers, Sentences& sentences) {
  if (!list.is_array()) return fmt::format("is a JSON {} instead of a list", list.type_name());
  if (list.empty()) return "is an empty list";
  for (const json& entry : list) {
    if (!is_entry(entry)) return fmt::format("has no [text, label] at index {}", sentences.size());
    const std::string label = entry[1];
    const int number = numbers.find(label);
    if (number < 0) {
      return fmt::format("has the label '{}' at index {}, and 'train' has not", label,
                         sentences.size());
    }
    sentences.texts.push_back(entry[0]);
    sentences.labels.push_back(number);
  }
  return "";
}

}  // namespace

Result<Corpus> load_corpus(const std::string& path) {
  FFDL_ASSIGN_OR_RETURN(const json object, read_json(path));
  const LabelNumbers numbers(object.value("train", json::array()));
  Corpus corpus;
  corpus.labels = numbers.names();
  for (const auto& [key, sentences] :
       {std::pair{"train", &corpus.train}, {"val", &corpus.validation}, {"test", &corpus.test}}) {
    const auto list = object.find(key);
    if (list == object.end()) return corrupt(path, fmt::format("the key '{}' is missing", key));
    const std::string problem = parse_list(*list, numbers, *sentences);
    if (!problem.empty()) return corrupt(path, fmt::format("the key '{}' {}", key, problem));
  }
  return corpus;
}

}  // namespace nlc
