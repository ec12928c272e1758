#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/protocol_version.h"
#include "ffdl/membership.h"

// The records that membership writes to the store. They are JSON, since people read them with the
// store's own client. They are written when the world changes, not in every step.
namespace ffdl::membership {

using base::kProtocolVersion;

// Holds in one record everything that must change together, since a store compares one key.
struct WorldRecord {
  uint64_t generation = 0;
  Phase phase = Phase::kForming;
  std::vector<Member> members{};        // ordered by rank
  std::vector<Member> state_holders{};  // members of the last active world; none: all start over
  uint64_t active_generation = 0;       // the last active world's, in any lineage
  uint64_t active_lineage = 0;          // the lineage of that world
  uint64_t lineage = 0;
  Recovery recovery = Recovery::kForward;
  uint64_t protocol = kProtocolVersion;  // version of the member that formed the first world
  uint64_t term = 0;                     // counts the leaders
  Member leader{};
  std::optional<CheckpointPointer> checkpoint{};    // the newest
  std::optional<CheckpointPointer> restart_base{};  // the newest when this lineage began
  uint64_t oldest_lineage = 0;                      // states of earlier lineages are void
  uint64_t lineage_generation = 0;  // of the first active world of the last active world's lineage
  StateLabel lineage_base{};        // with which that world began; all 0: the initial state
  uint64_t continues = 0;        // that lineage continues this one; 0: none
  std::string lineage_holder{};  // the member that had it in memory; empty: a checkpoint had it
  std::optional<StateLabel> completion{};           // the end of this lineage, then the last

  bool operator==(const WorldRecord&) const = default;
  // Returns the label under which a member's complete state is compared where the next lineage
  // begins; none: it is void.
  std::optional<StateLabel> label_at_beginning(const StateLabel& state) const;
  // Returns the lineage in which the last step of this base was made, where the next lineage
  // begins; 0: none.
  uint64_t continued_lineage(const StateLabel& base) const;
  // Returns true if a lineage has begun, but has had no active world yet, and a member may hold a
  // state of an earlier one.
  bool begins_lineage() const {
    return state_holders.empty() && recovery == Recovery::kForward && lineage != active_lineage &&
           active_lineage >= std::max<uint64_t>(oldest_lineage, 1);
  }
  // Returns true if the state holders live, and their state is of a lineage that is over.
  bool gives_up() const { return !state_holders.empty() && active_lineage != lineage; }
};

// Returns the label of the state in a checkpoint; none: there is no checkpoint.
std::optional<StateLabel> label_of(const std::optional<CheckpointPointer>& checkpoint);

// A life of a member to which another member could not connect.
struct Unreached {
  std::string id{};
  uint64_t incarnation = 0;
  uint64_t worlds = 0;  // number of failed worlds since the last that connected both

  bool operator==(const Unreached&) const = default;
  bool is(const Member& member) const {
    return member.id == id && member.incarnation == incarnation;
  }
};

struct CandidateRecord {
  uint64_t incarnation = 0;
  std::string address{};
  bool leaving = false;
  uint64_t failed_generation = 0;  // the last one that failed for it although no member died
  // The member whose place it takes: that life or an earlier one. Written only if there is one.
  std::optional<Member> takes_over_from{};
  std::vector<Unreached> unreached{};  // members it could not connect to; written only if not empty
};

// The progress of a lineage.
struct Reached {
  uint64_t lineage = 0;
  uint64_t step = 0;

  bool operator==(const Reached&) const = default;
};

struct Progress {
  uint64_t incarnation = 0;
  uint64_t generation = 0;
  uint64_t step = 0;
  Reached reached{};  // the newest by any life of this id: it outlives that life
  std::optional<StateLabel> holds{};  // the complete state of this life; none: it holds none
  std::string process{};  // Runtime::process_mark(), by which its end is proved; empty: none

  bool operator==(const Progress&) const = default;
  bool is_behind(const Progress& other) const {
    return std::pair(generation, step) < std::pair(other.generation, other.step);
  }
};

template <class Value>
bool contains(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Adds one world to the count of each of these members. Counts of their other lives are dropped.
void count_unreached(const std::vector<Member>& members, std::vector<Unreached>& unreached);

std::string_view to_string(Recovery recovery);

std::string encode(const WorldRecord& record);
std::string encode(const CandidateRecord& candidate);
std::string encode(const Progress& progress);
std::string encode_leader(const Member& leader);

// Parses a record. Errors: kCorrupt. A parsed record is one that a member could have written: no
// member twice, no active world whose state holders differ from its members.
Result<WorldRecord> parse_world(std::string_view text);
Result<CandidateRecord> parse_candidate(std::string_view text);
Result<Progress> parse_progress(std::string_view text);
Result<Member> parse_leader(std::string_view text);
// Parses a decimal number without other text: an incarnation.
Result<uint64_t> parse_number(std::string_view text);

using base::is_name;

}  // namespace ffdl::membership
