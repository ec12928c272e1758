#include "membership/decide_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "membership/leave_out.h"

namespace ffdl::membership {
namespace {

using namespace std::chrono_literals;
using Members = std::vector<Member>;

// The first pause after failed worlds, which doubles with each. Members that cannot work together
// may keep a job busy while others train on.
constexpr auto kFailedWorldPause = 1s;

std::string names(const Members& members) {
  std::vector<std::string> ids;
  for (const Member& member : members) ids.push_back(member.id);
  return fmt::format("{}", fmt::join(ids, " "));
}

Time end_of_fence(Time absent_since, const MembershipOptions& options) {
  return absent_since + options.fence_after + options.fence_margin + options.lease;
}

// Returns the end of the state holder's fence; none: it is dead for certain.
std::optional<Time> end_of_fence(const Member& state_holder, const Facts& facts, Time now,
                                 const MembershipOptions& options) {
  if (facts.is_dead(state_holder)) return std::nullopt;
  const auto absent = facts.absent.find(state_holder.id);
  return end_of_fence(absent == facts.absent.end() ? now : absent->second, options);
}

class Decision {
 public:
  Decision(const WorldRecord& record, const Facts& facts, Time now,
           const MembershipOptions& options)
      : record_(record), facts_(facts), now_(now), options_(options) {}

  WorldDecision decide() {
    const Members wanted = choose();
    if (record_.completion && !may_hand_over(wanted)) return {.reason = "the training is done"};
    const bool begins_anew = record_.state_holders.empty();
    const bool may_begin = begins_anew ? record_.begins_lineage() : !contains_state_holder(wanted);
    if (may_begin) return without_state_holder(wanted);
    return form(wanted, must_go_back() ? From::kCheckpoint : From::kSameLineage);
  }

 private:
  // The state from which the next world starts.
  enum class From {
    kSameLineage,  // that of the lineage, or with which the lineage that has begun will start
    kCheckpoint,   // the checkpoint, although some state holders are there
    kNewLineage,   // the newest state that a member or a checkpoint has, as no state holder is left
  };

  const Candidate* find_successor(const Member& member) const {
    return facts_.find_successor(member, record_.state_holders);
  }

  // Returns true if the member is a willing candidate without a successor.
  bool stays(const Member& member) const {
    const Candidate* candidate = facts_.find(member);
    return candidate != nullptr && candidate->is_willing() && find_successor(member) == nullptr;
  }

  bool contains_state_holder(const Members& members) const {
    return std::any_of(members.begin(), members.end(),
                       [&](const Member& m) { return contains(record_.state_holders, m); });
  }

  // Returns true if, in a job that is done, one member has the last state and another came for it.
  bool may_hand_over(const Members& wanted) const {
    return contains_state_holder(wanted) &&
           std::any_of(wanted.begin(), wanted.end(), [&](const Member& m) { return stays(m); });
  }

  // Returns true with consistent recovery if a state holder is lost and a member stays to train.
  // The next world has a state holder in it, as any other. Once that world is active the state
  // holder has settled. So no further step of the earlier lineage can become stable.
  bool must_go_back() const {
    if (record_.recovery != Recovery::kConsistent || record_.gives_up()) return false;
    if (record_.completion) return false;
    const bool somebody_stays =
        std::any_of(facts_.candidates.begin(), facts_.candidates.end(),
                    [](const Candidate& candidate) { return !candidate.leaving; });
    return somebody_stays &&
           std::any_of(record_.state_holders.begin(), record_.state_holders.end(),
                       [&](const Member& state_holder) { return facts_.is_lost(state_holder); });
  }

  // Chooses the members of the next world. A member of the world keeps its place, or its successor
  // takes it. State holders outside the world come before newcomers, which come in the order of
  // arrival. If there is no other state holder, one that hands over must stay for one more world.
  // Leaving state holders come next, then stalled ones.
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
    if (!record_.state_holders.empty() && !contains_state_holder(wanted)) {
      if (const Member* last = state_holder_that_hands_over()) {
        wanted.insert(wanted.begin(), *last);
        most = std::min(most + 1, base::kRanksMax);  // so that a full world can be taken over
      } else {
        keep_state_holders(wanted);
      }
    }
    cut_to(most, wanted);
    return wanted;
  }

  // Limits the world to `most` members and keeps one state holder, if any. It takes the last place
  // if all earlier places have other members.
  void cut_to(size_t most, Members& wanted) const {
    if (wanted.size() <= most) return;
    const auto state_holder = std::find_if(wanted.begin(), wanted.end(), [&](const Member& member) {
      return contains(record_.state_holders, member);
    });
    const auto last = wanted.begin() + static_cast<std::ptrdiff_t>(most) - 1;
    if (state_holder != wanted.end() && state_holder > last) *last = *state_holder;
    wanted.resize(most);
  }

  Members choose_others(const Members& wanted) const {
    std::vector<std::pair<const Candidate*, const Candidate*>> others;  // place, newcomer
    for (const Candidate& candidate : facts_.candidates) {
      const Member& member = candidate.member;
      if (!stays(member) || contains(record_.members, member) || contains(wanted, member)) continue;
      others.emplace_back(place_of(candidate), &candidate);
    }
    std::sort(others.begin(), others.end(), [&](const auto& a, const auto& b) {
      const bool a_carries = contains(record_.state_holders, a.first->member);
      const bool b_carries = contains(record_.state_holders, b.first->member);
      return a_carries != b_carries ? a_carries : a.first->joined < b.first->joined;
    });
    Members members;
    for (const auto& [place, candidate] : others) members.push_back(candidate->member);
    return members;
  }

  // Returns the predecessor of this candidate if it is still there, otherwise the candidate.
  const Candidate* place_of(const Candidate& candidate) const {
    for (const Candidate& other : facts_.candidates) {
      if (candidate.replaces(other.member) && find_successor(other.member) == &candidate) {
        return &other;
      }
    }
    return &candidate;
  }

  const Member* state_holder_that_hands_over() const {
    for (const Member& state_holder : record_.state_holders) {
      const Candidate* candidate = facts_.find(state_holder);
      if (candidate != nullptr && !candidate->stalled && find_successor(state_holder) != nullptr) {
        return &state_holder;
      }
    }
    return nullptr;
  }

  void keep_state_holders(Members& wanted) const {
    for (const bool stalled : {false, true}) {
      Members kept;
      for (const Member& state_holder : record_.state_holders) {
        const Candidate* candidate = facts_.find(state_holder);
        if (candidate != nullptr && candidate->stalled == stalled) kept.push_back(state_holder);
      }
      if (kept.empty()) continue;
      wanted.insert(wanted.begin(), kept.begin(), kept.end());
      return;
    }
  }

  std::optional<StateLabel> state_of(const Member& member) const {
    return facts_.state_of(member, record_);
  }

  // Gives a place to the candidate with the newest state, also if it is leaving.
  void keep_newest_state(Members& wanted) const {
    const Candidate* newest = find_newest_holder(record_, facts_);
    if (newest == nullptr || wanted.empty()) return;
    const auto label = state_of(newest->member);
    if (std::ranges::any_of(wanted, [&](const Member& m) { return state_of(m) >= label; })) return;
    if (wanted.size() < static_cast<size_t>(options_.max_workers)) {
      wanted.push_back(newest->member);
    } else {
      wanted.back() = newest->member;
    }
  }

  // Returns absent members that may hold a newer state than these members and the checkpoint.
  Members newer_states_elsewhere(const Members& wanted, Time& last_end) const {
    std::optional<StateLabel> newest = label_of(record_.checkpoint);
    for (const Member& member : wanted) newest = std::max(newest, state_of(member));
    Members holders;
    for (const auto& [id, holding] : facts_.states) {
      const Member holder = {id, holding.incarnation};
      if (!holding.absent || state_of(holder) <= newest) continue;
      if (facts_.is_dead(holder) || facts_.has_left(holder)) continue;
      const Time until = end_of_fence(*holding.absent, options_);
      if (until <= now_) continue;
      holders.push_back(holder);
      last_end = std::max(last_end, until);
    }
    return holders;
  }

  WorldDecision without_state_holder(Members wanted) const {
    WorldDecision decision;
    keep_newest_state(wanted);
    Time last_end = now_;
    for (const Member& state_holder : record_.state_holders) {
      const auto until = end_of_fence(state_holder, facts_, now_, options_);
      if (!until) continue;
      if (*until > now_) decision.waiting_for.push_back(state_holder);
      last_end = std::max(last_end, *until);
    }
    const bool has_state_holder = !decision.waiting_for.empty();
    if (!has_state_holder) decision.waiting_for = newer_states_elsewhere(wanted, last_end);
    if (decision.waiting_for.empty()) {
      return form(wanted, record_.state_holders.empty() ? From::kSameLineage : From::kNewLineage);
    }
    decision.warns = true;
    decision.again = last_end;
    decision.reason = fmt::format(
        "wait for '{}', {}", names(decision.waiting_for),
        has_state_holder
            ? "the only state holders: none of them answers, and none is known to be dead"
            : "which may hold a newer state than the members here and the checkpoint: it does not "
              "answer, and is not known to be dead");
    return decision;
  }

  WorldDecision form(const Members& wanted, From from) const {
    WorldDecision decision;
    if (wanted == record_.members && from == From::kSameLineage && !has_failed()) {
      decision.reason = "no member joined or left";
      return decision;
    }
    const size_t least = record_.completion ? 1 : static_cast<size_t>(options_.min_workers);
    if (wanted.size() < least) {
      decision.reason =
          fmt::format("{} of at least {} workers are here", wanted.size(), options_.min_workers);
      return decision;
    }
    const Time wait_until = from == From::kCheckpoint ? now_ : when_to_form(wanted);
    if (wait_until > now_) {
      decision.again = wait_until;
      decision.reason =
          has_failed() ? "the last worlds failed; the next one waits" : "newcomers wait for others";
      return decision;
    }
    decision.next = next_record(wanted, from);
    decision.loses_state =
        (from == From::kNewLineage || record_.begins_lineage()) && !record_.checkpoint &&
        std::ranges::none_of(wanted, [&](const Member& m) { return state_of(m).has_value(); });
    decision.warns = from == From::kCheckpoint && !record_.checkpoint;
    decision.reason = fmt::format("generation {}: '{}'{}", decision.next->generation, names(wanted),
                                  why_anew(from));
    return decision;
  }

  std::string why_anew(From from) const {
    if (from == From::kSameLineage) return "";
    if (from == From::kNewLineage) {
      return fmt::format(" begin lineage {}, as no state holder is left", record_.lineage + 1);
    }
    Members lost;
    for (const Member& state_holder : record_.state_holders) {
      if (facts_.is_lost(state_holder)) lost.push_back(state_holder);
    }
    if (record_.checkpoint) {
      return fmt::format(" go back to the newest checkpoint, as '{}' is lost", names(lost));
    }
    return fmt::format(
        " go back to step 0, as '{}' is lost and no checkpoint is published yet; take the first "
        "checkpoint earlier to keep more",
        names(lost));
  }

  // Returns the time to form the next world. It follows a loss at once, and at first a failure too.
  // Growth waits for further newcomers and for the world that is forming.
  Time when_to_form(const Members& wanted) const {
    const bool lost = std::any_of(record_.members.begin(), record_.members.end(),
                                  [&](const Member& m) { return !contains(wanted, m); });
    if (lost) return now_;
    if (has_failed()) return facts_.formed + pause_after_failures();
    const bool is_done = record_.completion.has_value();  // no world of it need become active
    const Candidate* holder = find_newest_holder(record_, facts_);
    const bool is_missing = holder != nullptr && !contains(record_.members, holder->member);
    if (record_.phase == Phase::kForming && !is_done) return is_missing ? now_ : kNoDeadline;
    if (wanted.size() == static_cast<size_t>(options_.max_workers)) return now_;
    Time newest = Time::min();
    for (const Member& member : wanted) {
      if (!contains(record_.members, member)) newest = std::max(newest, facts_.find(member)->since);
    }
    return newest == Time::min() ? now_ : newest + options_.gather;
  }

  // Returns no pause for the first failed worlds, then growing pauses. The others train on
  // meanwhile, and each new world costs all of them a connection.
  Duration pause_after_failures() const {
    const uint64_t failed = facts_.failed_worlds + 1;
    if (failed < kFailedWorldsFree) return Duration::zero();
    const uint64_t doublings = std::min<uint64_t>(failed - kFailedWorldsFree, 16);
    return std::min<Duration>(kFailedWorldPause * (1 << doublings), kFailedWorldPauseMax);
  }

  // Returns true if the members live but cannot work together any more.
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
    if (from == From::kNewLineage) {
      next.state_holders.clear();
      next.protocol = kProtocolVersion;
    }
    FFDL_CHECK(!wanted.empty() && wanted.size() <= base::kRanksMax,
               "a world has at least one member, and at most the limit");
    FFDL_CHECK(next.state_holders.empty() || contains_state_holder(wanted),
               "a world has a state holder if there is one");
    if (from != From::kSameLineage || record_.lineage == 0) {
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

std::optional<Time> holds_until(const Member& state_holder, const Facts& facts, Time now,
                                const MembershipOptions& options) {
  if (facts.find(state_holder) != nullptr) return kNoDeadline;
  return facts.has_left(state_holder) ? std::nullopt
                                      : end_of_fence(state_holder, facts, now, options);
}

WorldDecision decide_world(const std::optional<WorldRecord>& record, const Facts& facts, Time now,
                           const MembershipOptions& options) {
  // A missing record equals one without members, state holders and lineage, whose world is over.
  const WorldRecord before =
      record.value_or(WorldRecord{.phase = Phase::kActive, .recovery = options.recovery});
  LeftOut left_out = choose_left_out(before, facts, now, options);
  if (left_out.members.empty()) return Decision(before, facts, now, options).decide();
  Facts others = facts;
  for (Candidate& candidate : others.candidates) {
    candidate.left_out = contains(left_out.members, candidate.member);
  }
  WorldDecision decision = Decision(before, others, now, options).decide();
  decision.again = std::min(decision.again, left_out.again);
  decision.left_out = std::move(left_out.members);
  decision.why_left_out = std::move(left_out.why);
  return decision;
}

}  // namespace ffdl::membership
