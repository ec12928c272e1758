#include "sim/link_trouble.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "membership/decide_world.h"

namespace ffdl::sim {

using namespace std::chrono_literals;

namespace {

// The time of a step in these simulations: to compute it, and to end operations under way.
constexpr Duration kSettle = 400ms;

// Worlds that fail beside an isolated member. The next one is without it.
constexpr auto kWorldsMissed = static_cast<int64_t>(membership::kUnreachedWorldsFree);

bool lives(const Process& process) { return !process.node().is_killed() && !process.has_ended(); }

}  // namespace

Duration LinkTrouble::stall_max(const MembershipOptions& options) {
  return options.lease + kSettle + 1s;
}

Duration LinkTrouble::stall_after_failures_max(const MembershipOptions& options) {
  return membership::kFailedWorldPauseMax + stall_max(options);
}

Duration LinkTrouble::stall_beside_isolated_max(const MembershipOptions& options,
                                                bool others_failed) {
  const Duration world = others_failed ? std::max<Duration>(base::kLinkSilenceMax,
                                                            membership::kFailedWorldPauseMax)
                                       : Duration(base::kLinkSilenceMax);
  return base::kPeerSilentMax + kWorldsMissed * world + 2 * stall_max(options);
}

void LinkTrouble::cut_pair(const Process& one, const Process& other, Duration until) {
  exchange_.cut(one.id(), other.id(), until);
  if (runtime_.chance(0.5)) exchange_.cut(other.id(), one.id(), until);
  pair_until_ = std::max(pair_until_, until);
}

void LinkTrouble::cut_member(const Processes& processes, Process& one, Duration until) {
  one.store().cut_off_until(until);
  cut_links(processes, one, until);
  member_until_ = until;
}

void LinkTrouble::cut_links(const Processes& processes, const Process& one, Duration until) {
  for (const auto& other : processes) {
    if (other.get() == &one) continue;
    exchange_.cut(one.id(), other->id(), until);
    exchange_.cut(other->id(), one.id(), until);
  }
}

// Isolates a member longer than the others need to notice the silence and to try three worlds. A
// member that joins in this time is reachable.
void LinkTrouble::isolate(const Processes& processes, const Process& one, Duration until) {
  cut_links(processes, one, until);
  isolated_ = one.id();
  isolated_until_ = until;
}

bool LinkTrouble::is_isolated(const Process& process) const {
  return runtime_.elapsed() < isolated_until_ && process.id() == isolated_;
}

void LinkTrouble::act(const Processes& processes) {
  const Duration now = runtime_.elapsed();
  std::vector<Process*> living;
  for (const auto& process : processes) {
    if (lives(*process)) living.push_back(process.get());
  }
  if (living.size() < 2 || now < isolated_until_ || !runtime_.chance(0.2)) return;
  Process& one = *living[runtime_.below(living.size())];
  const Duration until = now + runtime_.up_to(runtime_.chance(0.5) ? 400ms : 3s);
  if (now >= std::max(pair_until_, member_until_) && runtime_.chance(0.1)) {
    isolate(processes, one, now + 5s + runtime_.up_to(25s));
  } else if (runtime_.chance(0.3)) {
    const Process& other = *living[runtime_.below(living.size())];
    if (&other != &one) cut_pair(one, other, until);
  } else if (now >= member_until_) {
    cut_member(processes, one, until);
  } else {
    return;
  }
  stall_ = begin_stall();
  for (auto& [life, member] : stalls_) member.stall = stall_;
}

LinkTrouble::Stall LinkTrouble::begin_stall() const {
  const uint64_t failed = failed_worlds();
  return {runtime_.elapsed(), failed, failed};
}

uint64_t LinkTrouble::failed_worlds() const {
  const auto& record = checker_.record();
  return record ? record->generation - record->active_generation : 0;
}

// Returns true if the job must make steps. A member of the last active world reaches the store
// then, and no link between two such members is cut.
bool LinkTrouble::must_go_on(const Processes& processes) const {
  const Duration now = runtime_.elapsed();
  const auto& record = checker_.record();
  if (now < pair_until_ || !record || record->active_generation == 0) return false;
  if (record->completion) return false;  // no further step follows
  return std::any_of(processes.begin(), processes.end(), [&](const auto& process) {
    return lives(*process) && process->self() != nullptr && !process->store().is_cut_off() &&
           !is_isolated(*process) && membership::contains(record->state_holders, *process->self());
  });
}

void LinkTrouble::measure(const Processes& processes, const MembershipOptions& options) {
  if (applied_ != checker_.applied_steps() || !must_go_on(processes)) {
    applied_ = checker_.applied_steps();
    stall_ = begin_stall();
  }
  const auto time = beyond_bound(stall_, longest_, options);
  if (!time) return;
  checker_.violation(fmt::format("stall{}: no member applied a step for {} ms; record {}",
                                 beside(stall_.since), *time / 1ms, encode(*checker_.record())));
}

std::optional<Duration> LinkTrouble::beyond_bound(Stall& stall, Duration& longest,
                                                  const MembershipOptions& options) const {
  stall.most_failed = std::max(stall.most_failed, failed_worlds());
  const Duration time = runtime_.elapsed() - stall.since;
  if (!is_beside_isolated(stall.since)) longest = std::max(longest, time);
  if (time <= longest_permitted(stall, options)) return std::nullopt;
  return time;
}

// A world that becomes active ends the count of failed ones before its first step ends the stall.
Duration LinkTrouble::longest_permitted(const Stall& stall,
                                        const MembershipOptions& options) const {
  if (is_beside_isolated(stall.since)) {
    return stall_beside_isolated_max(options, stall.most_failed > kWorldsMissed + 1);
  }
  return stall.failed >= membership::kFailedWorldsFree ? stall_after_failures_max(options)
                                                       : stall_max(options);
}

std::string LinkTrouble::beside(Duration since) const {
  return is_beside_isolated(since) ? " beside '" + isolated_ + "'" : "";
}

// Returns true if the rules may keep the two apart.
bool LinkTrouble::are_apart(const Process& one, const Process& other) const {
  return exchange_.worlds_missed(one.id(), other.id()) >= membership::kUnreachedWorldsFree;
}

bool LinkTrouble::is_healthy(const Processes& processes, const Process& process) const {
  const auto& record = checker_.record();
  if (!record || record->active_generation == 0 || record->completion) return false;
  if (process.node().is_paused(runtime_.elapsed()) || !process.may_use_state()) return false;
  if (process.is_leaving()) return false;
  std::vector<const Process*> connected;  // reach the store, and are not isolated
  for (const auto& other : processes) {
    if (!lives(*other)) continue;
    if (other->is_finishing() || other->takes_over_from() == process.id()) return false;
    if (other.get() != &process && are_apart(process, *other)) return false;
    if (!other->store().is_cut_off() && !is_isolated(*other)) connected.push_back(other.get());
  }
  if (std::ranges::find(connected, &process) == connected.end()) return false;
  const bool is_state_there = std::ranges::any_of(connected, [&](const Process* one) {
    return one->self() != nullptr && membership::contains(record->state_holders, *one->self());
  });
  return is_state_there && std::ranges::none_of(connected, [&](const Process* from) {
    return std::ranges::any_of(
        connected, [&](const Process* to) { return exchange_.is_cut(from->id(), to->id()); });
  });
}

void LinkTrouble::measure_members(const Processes& processes, const MembershipOptions& options) {
  for (const auto& process : processes) {
    const Member* self = process->self();
    if (self == nullptr) continue;
    const auto [found, is_new] = stalls_.try_emplace({self->id, self->incarnation});
    MemberStall& one = found->second;
    const uint64_t steps = process->applied_steps();
    const bool is_still = !is_new && one.steps == steps;
    const bool was_healthy = std::exchange(one.is_healthy, is_healthy(processes, *process));
    if (!is_still || !was_healthy || !one.is_healthy) {
      one = {begin_stall(), steps, checker_.applied_steps(), one.is_healthy};
    }
    const auto time = beyond_bound(one.stall, longest_of_member_, options);
    if (!time) continue;
    checker_.violation(fmt::format(
        "stall of a member{}: '{}' applied no step for {} ms, and all others {} steps; record {}",
        beside(one.stall.since), self->id, *time / 1ms, checker_.applied_steps() - one.steps_of_all,
        encode(*checker_.record())));
  }
}

}  // namespace ffdl::sim
