#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/ledger/ledger_state.h"

// Writes members and leases as text, so that tests are easy to read.
namespace ffdl::data::testing {

// "a b2" are member a in its first life and member b in its second.
inline std::vector<Member> members(const std::string& text) {
  std::vector<Member> result;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      result.back().incarnation = static_cast<uint64_t>(c - '0');
    } else if (c != ' ') {
      result.push_back({std::string(1, c), 1});
    }
  }
  return result;
}

// "0:0-4 2:1-4" are the first four samples of partition 0 and three of partition 2.
inline std::string text_of(const std::vector<SampleRange>& ranges) {
  std::string text;
  for (const SampleRange& range : ranges) {
    if (!text.empty()) text += ' ';
    text += std::to_string(range.partition) + ':' + std::to_string(range.begin) + '-' +
            std::to_string(range.end);
  }
  return text;
}

// Returns "a 0:0-4 | b ", in the order of ranks.
inline std::string text_of(const LedgerState& state) {
  std::string text;
  for (size_t rank = 0; rank < state.members().size(); ++rank) {
    if (!text.empty()) text += " | ";
    text += state.members()[rank].id + ' ' + text_of(state.leases(rank));
  }
  return text;
}

}  // namespace ffdl::data::testing
