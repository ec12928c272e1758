#include "membership/leave_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace ffdl::membership {
namespace {

using namespace std::chrono_literals;

// The first time for which two members are kept apart. It doubles with each further world.
constexpr Duration kApart = 1s;

// Two candidates that could not connect to each other.
struct Pair {
  const Candidate* one;
  const Candidate* other;
  uint64_t worlds;
  Time apart_until;

  bool has(const Candidate* candidate) const { return one == candidate || other == candidate; }
  const Candidate* beside(const Candidate* candidate) const {
    return candidate == one ? other : one;
  }
};

Time apart_until(const Candidate& one, const Candidate& other) {
  const uint64_t worlds = one.worlds_unreached(other.member);
  if (worlds < kUnreachedWorldsFree) return Time::min();
  const uint64_t doublings = std::min<uint64_t>(worlds - kUnreachedWorldsFree, 16);
  const Duration apart = std::min(kApart * (int64_t{1} << doublings), kApartMax);
  return one.unreached_since.at(other.member.id) + apart;
}

std::vector<Pair> pairs_of(const Facts& facts) {
  std::vector<Pair> pairs;
  for (auto one = facts.candidates.begin(); one != facts.candidates.end(); ++one) {
    for (auto other = std::next(one); other != facts.candidates.end(); ++other) {
      const uint64_t worlds =
          std::max(one->worlds_unreached(other->member), other->worlds_unreached(one->member));
      if (worlds == 0 || !one->is_willing() || !other->is_willing()) continue;
      const Time until = std::max(apart_until(*one, *other), apart_until(*other, *one));
      pairs.push_back({&*one, &*other, worlds, until});
    }
  }
  return pairs;
}

class Choice {
 public:
  Choice(const WorldRecord& record, const Facts& facts, Time now)
      : record_(record),
        newest_(find_newest_holder(record, facts)),
        now_(now),
        pairs_(pairs_of(facts)) {
    for (const Candidate& candidate : facts.candidates) {
      if (candidate.is_willing()) remaining_.push_back(&candidate);
    }
  }

  void choose() {
    while (const Candidate* next = worst()) {
      out_.push_back(next);
      std::erase(remaining_, next);
    }
  }

  size_t remaining() const { return remaining_.size(); }

  LeftOut result() const {
    LeftOut result;
    std::vector<std::string> reasons;
    for (const Candidate* candidate : out_) {
      result.members.push_back(candidate->member);
      reasons.push_back(why(*candidate));
    }
    for (const Pair& pair : pairs_) {
      if (pair.apart_until > now_) result.again = std::min(result.again, pair.apart_until);
    }
    if (!out_.empty()) result.why = fmt::format("{}", fmt::join(reasons, "; "));
    return result;
  }

 private:
  bool carries(const Candidate* candidate) const {
    return contains(record_.state_holders, candidate->member) || candidate == newest_;
  }
  bool remains(const Candidate* candidate) const {
    return std::ranges::find(remaining_, candidate) != remaining_.end();
  }
  bool is_last_state_holder(const Candidate* candidate) const {
    return carries(candidate) && std::ranges::count_if(remaining_, [&](const Candidate* one) {
                                   return carries(one);
                                 }) == 1;
  }

  // Returns the next candidate to leave out; null: no remaining pair must be kept apart.
  const Candidate* worst() const {
    const Candidate* worst = nullptr;
    const auto rank_of = [&](const Candidate* candidate) {
      return std::tuple(misses(candidate), !carries(candidate), candidate->joined);
    };
    for (const Candidate* candidate : remaining_) {
      if (!must_part(candidate) || is_last_state_holder(candidate)) continue;
      if (worst == nullptr || rank_of(candidate) > rank_of(worst)) worst = candidate;
    }
    return worst;
  }

  bool must_part(const Candidate* candidate) const {
    return std::ranges::any_of(pairs_, [&](const Pair& pair) {
      return pair.has(candidate) && pair.apart_until > now_ && remains(pair.beside(candidate));
    });
  }

  // Returns in how many worlds this one and a remaining candidate could not connect, over all of
  // those. A member that gave up early misses others, too, but in fewer worlds than the cause.
  uint64_t misses(const Candidate* candidate) const {
    uint64_t worlds = 0;
    for (const Pair& pair : pairs_) {
      if (pair.has(candidate) && remains(pair.beside(candidate))) worlds += pair.worlds;
    }
    return worlds;
  }

  std::string why(const Candidate& candidate) const {
    std::vector<std::string> others;
    uint64_t worlds = 0;
    for (const Pair& pair : pairs_) {
      if (!pair.has(&candidate)) continue;
      others.push_back(place_of(pair.beside(&candidate)->member));
      worlds = std::max(worlds, pair.worlds);
    }
    return fmt::format(
        "{} and {} could not connect in {} worlds; the first is left out for a time: check that "
        "the others can reach its address, and that no firewall or route between them drops "
        "connections",
        place_of(candidate.member), fmt::join(others, ", "), worlds);
  }

  static std::string place_of(const Member& member) {
    return member.address.empty() ? fmt::format("'{}'", member.id)
                                  : fmt::format("'{}' at {}", member.id, member.address);
  }

  const WorldRecord& record_;
  const Candidate* const newest_;  // null: there are state holders
  const Time now_;
  const std::vector<Pair> pairs_;
  std::vector<const Candidate*> remaining_;
  std::vector<const Candidate*> out_;
};

}  // namespace

LeftOut choose_left_out(const WorldRecord& record, const Facts& facts, Time now,
                        const MembershipOptions& options) {
  Choice choice(record, facts, now);
  choice.choose();
  if (choice.remaining() < static_cast<size_t>(options.min_workers)) return {};
  return choice.result();
}

}  // namespace ffdl::membership
