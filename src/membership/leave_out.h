#pragma once

#include <string>
#include <vector>

#include "membership/membership_observer.h"

namespace ffdl::membership {

// The longest time for which two members that could not connect are kept apart.
inline constexpr Duration kApartMax = std::chrono::seconds(64);

// Live candidates that the next world leaves out. Each of them and another candidate could not
// connect to each other.
struct LeftOut {
  std::vector<Member> members{};
  Time again = kNoDeadline;  // the time when the first of those pairs is tried again
  std::string why{};         // names them, their addresses, those that missed them, and checks
};

// Chooses the candidates to leave out. Two members that could not connect in three worlds since the
// last that connected both are kept apart for a time. Each further world doubles that time, so the
// others need not wait for them. The member whose pairs failed in most worlds is left out first. Of
// equal ones newcomers come before state holders, and the latest first. At least one state holder,
// if there is any, and `min_workers` members stay; if fewer would remain, no member is left out.
LeftOut choose_left_out(const WorldRecord& record, const Facts& facts, Time now,
                        const MembershipOptions& options);

}  // namespace ffdl::membership
