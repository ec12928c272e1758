#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "membership/membership_observer.h"

namespace ffdl::membership {

// Worlds that may fail in a row before the next one waits.
inline constexpr uint64_t kFailedWorldsFree = 3;
// The longest time from the beginning of a world that failed to that of the next one.
inline constexpr Duration kFailedWorldPauseMax = std::chrono::seconds(4);

struct WorldDecision {
  std::optional<WorldRecord> next{};  // to be written; none: no change
  std::vector<Member> waiting_for{};  // state holders without which no world may be formed
  std::vector<Member> left_out{};     // live candidates that cannot connect to others
  std::string why_left_out{};         // empty: none is left out
  bool loses_state = false;           // `next` starts from the initial state after an active world
  bool warns = false;                 // the user should see the reason
  Time again = kNoDeadline;           // time at which the decision may change without an event
  std::string reason{};
};

// Decides which world the leader should form from these facts. Safety is in three rules: the next
// world has a state holder in it; state holders change only when a world is active; without a state
// holder the job starts over only when each of them is dead for certain, or must have dropped its
// state. The rest (time, number and order of members) is preference. A job that is done starts no
// lineage: its worlds bring its last state to late members. `record` is none before the first
// world. `next` has the term and the leader of the record.
WorldDecision decide_world(const std::optional<WorldRecord>& record, const Facts& facts, Time now,
                           const MembershipOptions& options);

// Returns the time until which this state holder may still hold the state: kNoDeadline while it is
// a candidate, otherwise the end of its fence after it was last seen. Returns nothing once it is
// dead for certain or has left.
std::optional<Time> holds_until(const Member& state_holder, const Facts& facts, Time now,
                                const MembershipOptions& options);

}  // namespace ffdl::membership
