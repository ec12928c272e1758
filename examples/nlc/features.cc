#include "nlc/features.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace nlc {
namespace {

constexpr std::size_t kRunMin = 2;
constexpr std::size_t kRunMax = 4;

enum class Kind : uint64_t { kWord, kPair, kRun };

// Hashes with FNV-1a and a last step that spreads it to the high bits. The kind separates a word
// from a run of the same letters.
uint64_t row_of(Kind kind, std::string_view text, int table_bits) {
  uint64_t hash = 0xCBF29CE484222325U + static_cast<uint64_t>(kind);
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return layers::Random(hash).next() >> (64 - table_bits);
}

bool is_letter(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '\'' || c >= 0x80;
}

// Returns the words in angle brackets, so that the letters at the ends of a word differ from those
// inside. A visible character that is not a letter is a word.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = is_letter(byte);
    if (byte > ' ') {
      if (!letter || !in_word) words.emplace_back("<");
      words.back() += c;
    }
    in_word = letter;
  }
  for (std::string& word : words) word += '>';
  return words;
}

}  // namespace

void Features::clear() {
  rows.clear();
  factors.clear();
  ends.clear();
}

void append_features(std::string_view text, Features& features, int table_bits) {
  auto& [rows, factors, ends] = features;
  const std::size_t limit = rows.size() + kFeaturesMax;
  const auto add = [&](Kind kind, std::string_view feature) {
    if (rows.size() < limit) rows.push_back(row_of(kind, feature, table_bits));
  };
  // A sum of unrelated rows grows with the root of their number.
  const auto end_kind = [&] {
    const auto count = static_cast<float>(rows.size() - factors.size());
    factors.resize(rows.size(), 1.0F / std::sqrt(count));
  };
  const std::vector<std::string> words = words_of(text);
  for (const std::string& word : words) add(Kind::kWord, word);
  end_kind();

  std::string before;
  for (const std::string& word : words) {
    add(Kind::kPair, before + word);
    before = word;
  }
  add(Kind::kPair, before);
  end_kind();

  for (const std::string_view word : words) {
    for (std::size_t size = kRunMin; size <= std::min(kRunMax, word.size()); ++size) {
      for (std::size_t begin = 0; begin + size <= word.size(); ++begin) {
        add(Kind::kRun, word.substr(begin, size));
      }
    }
  }
  end_kind();
  ends.push_back(rows.size());
}

void drop_features(float probability, layers::Random& random, Features& features) {
  const float scale = 1.0F / (1.0F - probability);
  std::size_t kept = 0;
  std::size_t i = 0;
  for (std::size_t& end : features.ends) {
    for (; i < end; ++i) {
      if (random.uniform(0.0F, 1.0F) < probability) continue;
      features.rows[kept] = features.rows[i];
      features.factors[kept++] = features.factors[i] * scale;
    }
    end = kept;
  }
  features.rows.resize(kept);
  features.factors.resize(kept);
}

}  // namespace nlc
