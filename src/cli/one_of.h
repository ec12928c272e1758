#pragma once

#include <fmt/ranges.h>

#include <CLI/Validators.hpp>
#include <map>
#include <string>
#include <vector>

namespace ffdl::cli {

// Accepts one of these words. CLI11's own validator also shows and accepts the numbers of the
// choices.
template <class Choice>
CLI::Validator one_of(const std::map<std::string, Choice>& choices) {
  std::vector<std::string> words;
  for (const auto& [word, choice] : choices) words.push_back(word);
  const auto to_number = [choices, words](std::string& given) -> std::string {
    const auto found = choices.find(given);
    if (found == choices.end()) {
      return fmt::format("is '{}'; use one of {}", given, fmt::join(words, ", "));
    }
    given = std::to_string(static_cast<int>(found->second));
    return {};
  };
  return {to_number, fmt::format("{{{}}}", fmt::join(words, ","))};
}

}  // namespace ffdl::cli
