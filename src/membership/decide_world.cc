#include "membership/decide_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/limits.h"

namespace ffdl::membership {
namespace {

using Members = std::vector<Member>;

std::string names(const Members& members) {
  std::vector<std::string> ids;
  for (const Member& member : members) ids.push_back(member.id);
  return fmt::format("{}", fmt::join(ids, " "));
}

class Decision {
 public:
  Decision(const WorldRecord& record, const Facts& facts, Time now,
           const MembershipOptions& options)
      : record_(record), facts_(facts), now_(now), options_(options) {}

  WorldDecision decide() {
    const Members wanted = choose();
    const bool begins_anew = record_.carriers.empty();
    if (!begins_anew && !holds_carrier(wanted)) return without_carrier(wanted);
    return form(wanted, must_go_back() ? From::kCheckpoint : From::kCarriers);
  }

 private:
  // What the next world begins with.
  enum class From {
    kCarriers,    // the newest state of theirs
    kCheckpoint,  // not that, though some carriers are there
    kNobody,      // there are none
  };

  const Candidate* find_successor(const Member& member) const {
    return facts_.find_successor(member, record_.carriers);
  }

  // Is there, can work, and nobody takes over from it.
  bool stays(const Member& member) const {
    const Candidate* candidate = facts_.find(member);
    return candidate != nullptr && candidate->is_willing() && find_successor(member) == nullptr;
  }

  bool holds_carrier(const Members& members) const {
    return std::any_of(members.begin(), members.end(),
                       [&](const Member& m) { return contains(record_.carriers, m); });
  }

  // With consistent recovery, when a carrier is lost and somebody stays to train. The next world
  // has a carrier as any other does: when it is active that one has settled, so that no step of the
  // lineage before can become stable any more.
  bool must_go_back() const {
    if (record_.recovery != Recovery::kConsistent || record_.gives_up()) return false;
    const bool somebody_stays =
        std::any_of(facts_.candidates.begin(), facts_.candidates.end(),
                    [](const Candidate& candidate) { return !candidate.leaving; });
    return somebody_stays &&
           std::any_of(record_.carriers.begin(), record_.carriers.end(),
                       [&](const Member& carrier) { return facts_.is_lost(carrier); });
  }

  // Who is in the world keeps its place, or its successor has it; carriers that are not come before
  // newcomers, who come in the order of their arrival. If there is no other carrier, one that hands
  // over must stay for a world more, then those who want to go, and then those who stand still.
  Members choose() const {
    Members wanted;
    for (const Member& member : record_.members) {
      const Candidate* successor = find_successor(member);
      const Member& holder = successor != nullptr ? successor->member : member;
      const bool has_own_place = successor != nullptr && contains(record_.members, holder);
      if (stays(holder) && !has_own_place) wanted.push_back(holder);
    }
    const Members others = choose_others(wanted);
    wanted.insert(wanted.end(), others.begin(), others.end());
    auto most = static_cast<size_t>(options_.max_workers);
    if (!record_.carriers.empty() && !holds_carrier(wanted)) {
      if (const Member* last = carrier_that_hands_over()) {
        wanted.insert(wanted.begin(), *last);
        most = std::min(most + 1, base::kRanksMax);  // or a full world could not be taken over
      } else {
        keep_carriers(wanted);
      }
    }
    if (wanted.size() > most) wanted.resize(most);
    return wanted;
  }

  Members choose_others(const Members& wanted) const {
    std::vector<std::pair<const Candidate*, const Candidate*>> others;  // whose place, and who
    for (const Candidate& candidate : facts_.candidates) {
      const Member& member = candidate.member;
      if (!stays(member) || contains(record_.members, member) || contains(wanted, member)) continue;
      others.emplace_back(place_of(candidate), &candidate);
    }
    std::sort(others.begin(), others.end(), [&](const auto& a, const auto& b) {
      const bool a_carries = contains(record_.carriers, a.first->member);
      const bool b_carries = contains(record_.carriers, b.first->member);
      return a_carries != b_carries ? a_carries : a.first->joined < b.first->joined;
    });
    Members members;
    for (const auto& [place, candidate] : others) members.push_back(candidate->member);
    return members;
  }

  // The one that it takes over from and that is still there, or itself.
  const Candidate* place_of(const Candidate& candidate) const {
    for (const Candidate& other : facts_.candidates) {
      if (candidate.replaces(other.member) && find_successor(other.member) == &candidate) {
        return &other;
      }
    }
    return &candidate;
  }

  const Member* carrier_that_hands_over() const {
    for (const Member& carrier : record_.carriers) {
      const Candidate* candidate = facts_.find(carrier);
      if (candidate != nullptr && !candidate->stalled && find_successor(carrier) != nullptr) {
        return &carrier;
      }
    }
    return nullptr;
  }

  void keep_carriers(Members& wanted) const {
    for (const bool stalled : {false, true}) {
      Members kept;
      for (const Member& carrier : record_.carriers) {
        const Candidate* candidate = facts_.find(carrier);
        if (candidate != nullptr && candidate->stalled == stalled) kept.push_back(carrier);
      }
      if (kept.empty()) continue;
      wanted.insert(wanted.begin(), kept.begin(), kept.end());
      return;
    }
  }

  WorldDecision without_carrier(const Members& wanted) const {
    WorldDecision decision;
    Time last_end = now_;
    for (const Member& carrier : record_.carriers) {
      if (facts_.is_dead(carrier)) continue;
      const auto absent = facts_.absent.find(carrier.id);
      const Time since = absent == facts_.absent.end() ? now_ : absent->second;
      const Time end = since + options_.fence_after + options_.fence_margin + options_.lease;
      if (end > now_) decision.waiting_for.push_back(carrier);
      last_end = std::max(last_end, end);
    }
    if (decision.waiting_for.empty()) return form(wanted, From::kNobody);
    decision.again = last_end;
    decision.reason = fmt::format(
        "wait for '{}', who alone have the state: none of them answers, and none is known to be "
        "dead",
        names(decision.waiting_for));
    return decision;
  }

  WorldDecision form(const Members& wanted, From from) const {
    WorldDecision decision;
    if (wanted == record_.members && from == From::kCarriers && !has_failed()) {
      decision.reason = "nobody came or went";
      return decision;
    }
    if (wanted.empty() || wanted.size() < static_cast<size_t>(options_.min_workers)) {
      decision.reason =
          fmt::format("{} of at least {} workers are here", wanted.size(), options_.min_workers);
      return decision;
    }
    const Time wait_until = from == From::kCheckpoint ? now_ : when_to_form(wanted);
    if (wait_until > now_) {
      decision.again = wait_until;
      decision.reason = "newcomers wait for others";
      return decision;
    }
    decision.next = next_record(wanted, from);
    decision.reason = fmt::format("generation {}: '{}'{}", decision.next->generation, names(wanted),
                                  why_anew(from));
    return decision;
  }

  std::string why_anew(From from) const {
    if (from == From::kCarriers) return "";
    if (from == From::kNobody) return " begin anew, as nobody has the state";
    Members lost;
    for (const Member& carrier : record_.carriers) {
      if (facts_.is_lost(carrier)) lost.push_back(carrier);
    }
    return fmt::format(" go back to the newest checkpoint, as '{}' is lost", names(lost));
  }

  // A loss or a failure is answered at once. Growth waits: for more to come, and for the world that
  // is forming.
  Time when_to_form(const Members& wanted) const {
    const bool lost = std::any_of(record_.members.begin(), record_.members.end(),
                                  [&](const Member& m) { return !contains(wanted, m); });
    if (lost || has_failed()) return now_;
    if (record_.phase == Phase::kForming) return kNoDeadline;
    if (wanted.size() == static_cast<size_t>(options_.max_workers)) return now_;
    Time newest = Time::min();
    for (const Member& member : wanted) {
      if (!contains(record_.members, member)) newest = std::max(newest, facts_.find(member)->since);
    }
    return newest == Time::min() ? now_ : newest + options_.gather;
  }

  // Its members live, but cannot work together any more.
  bool has_failed() const {
    return std::any_of(record_.members.begin(), record_.members.end(), [&](const Member& member) {
      const Candidate* candidate = facts_.find(member);
      return candidate != nullptr && candidate->failed_generation == record_.generation;
    });
  }

  WorldRecord next_record(const Members& wanted, From from) const {
    WorldRecord next = record_;
    ++next.generation;
    next.phase = Phase::kForming;
    next.members = wanted;
    if (from == From::kNobody) next.carriers.clear();
    if (from != From::kCarriers || record_.lineage == 0) {
      ++next.lineage;
      next.restart_base = record_.checkpoint;
    }
    return next;
  }

  const WorldRecord& record_;
  const Facts& facts_;
  const Time now_;
  const MembershipOptions& options_;
};

}  // namespace

WorldDecision decide_world(const std::optional<WorldRecord>& record, const Facts& facts, Time now,
                           const MembershipOptions& options) {
  // No record is one without members, carriers and lineage, whose world is over.
  const WorldRecord before =
      record.value_or(WorldRecord{.phase = Phase::kActive, .recovery = options.recovery});
  return Decision(before, facts, now, options).decide();
}

}  // namespace ffdl::membership
