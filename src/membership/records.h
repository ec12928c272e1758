#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/names.h"
#include "ffdl/membership.h"

// What membership writes to the store. JSON: a person with the store's own client reads it, and it
// is written when the world changes, not in every step.
namespace ffdl::membership {

// All that must change together is in this one record, since a store compares one key.
struct WorldRecord {
  uint64_t generation = 0;
  Phase phase = Phase::kForming;
  std::vector<Member> members{};   // in the order of ranks
  std::vector<Member> carriers{};  // members of the last active world; none: all begin anew
  uint64_t active_generation = 0;  // of the last active world, in any lineage
  uint64_t active_lineage = 0;     // the lineage of that world
  uint64_t lineage = 0;
  Recovery recovery = Recovery::kForward;
  uint64_t term = 0;  // counts the leaders
  Member leader{};
  std::optional<CheckpointPointer> checkpoint{};    // the newest
  std::optional<CheckpointPointer> restart_base{};  // what this lineage began from

  bool operator==(const WorldRecord&) const = default;
  // Its carriers live, and what they hold is of a lineage that is over.
  bool gives_up() const { return !carriers.empty() && active_lineage != lineage; }
};

struct CandidateRecord {
  uint64_t incarnation = 0;
  std::string address{};
  bool leaving = false;
  uint64_t failed_generation = 0;  // the last one that came apart for it, though nobody died
  // Whose place it takes: this life of that member, or one before. Written only where there is one.
  std::optional<Member> takes_over_from{};
};

struct Progress {
  uint64_t incarnation = 0;
  uint64_t generation = 0;
  uint64_t step = 0;

  bool operator==(const Progress&) const = default;
  bool is_behind(const Progress& other) const {
    return std::pair(generation, step) < std::pair(other.generation, other.step);
  }
};

inline bool contains(const std::vector<Member>& members, const Member& member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

std::string_view to_string(Recovery recovery);

std::string encode(const WorldRecord& record);
std::string encode(const CandidateRecord& candidate);
std::string encode(const Progress& progress);
std::string encode_leader(const Member& leader);

// Errors: kCorrupt. A record that was read is one that could have been written: no member twice, no
// active world whose carriers are others than its members.
Result<WorldRecord> parse_world(std::string_view text);
Result<CandidateRecord> parse_candidate(std::string_view text);
Result<Progress> parse_progress(std::string_view text);
Result<Member> parse_leader(std::string_view text);
// A decimal number alone: an incarnation.
Result<uint64_t> parse_number(std::string_view text);

using base::is_name;

}  // namespace ffdl::membership
