#include "membership/membership_observer.h"

#include <algorithm>

#include "base/log.h"

namespace ffdl::membership {
namespace {

// Returns the rest of a key after a prefix; empty if the key does not begin with it.
std::string_view rest_of(std::string_view key, std::string_view prefix) {
  return key.starts_with(prefix) ? key.substr(prefix.size()) : std::string_view();
}

const Entry* find_entry(std::span<const Entry> entries, std::string_view key) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace

uint64_t Candidate::worlds_unreached(const Member& other) const {
  const auto found =
      std::ranges::find_if(unreached, [&](const Unreached& one) { return one.is(other); });
  return found == unreached.end() ? 0 : found->worlds;
}

const Candidate* Facts::find(const Member& member) const {
  const auto found =
      std::find_if(candidates.begin(), candidates.end(),
                   [&](const Candidate& candidate) { return candidate.member == member; });
  return found == candidates.end() ? nullptr : &*found;
}

const Candidate* Facts::find_successor(const Member& member,
                                       const std::vector<Member>& state_holders) const {
  const Candidate* first = nullptr;
  for (const Candidate& candidate : candidates) {
    if (!candidate.replaces(member)) continue;
    const bool has_done =
        contains(state_holders, candidate.member) && !contains(state_holders, member);
    if (!has_done && !candidate.is_willing()) continue;
    if (first == nullptr || candidate.joined < first->joined) first = &candidate;
  }
  return first;
}

bool Facts::is_dead(const Member& member) const {
  const auto found = dead.find(member.id);
  return found != dead.end() && found->second >= member.incarnation;
}

bool Facts::has_left(const Member& member) const {
  const auto found = left.find(member.id);
  return found != left.end() && found->second >= member.incarnation;
}

bool Facts::is_lost(const Member& member) const {
  if (has_left(member)) return false;
  const Candidate* candidate = find(member);
  return candidate == nullptr || candidate->stalled || candidate->left_out;
}

std::optional<StateLabel> Facts::state_of(const Member& member, const WorldRecord& record) const {
  const auto found = states.find(member.id);
  if (found == states.end() || found->second.incarnation != member.incarnation) return std::nullopt;
  return record.label_at_beginning(found->second.label);
}

const Candidate* find_newest_holder(const WorldRecord& record, const Facts& facts) {
  const Candidate* newest = nullptr;
  std::optional<StateLabel> its;
  for (const Candidate& candidate : facts.candidates) {
    const auto state = facts.state_of(candidate.member, record);
    if (!state || *state < label_of(record.checkpoint) || state < its) continue;
    if (state == its && (candidate.stalled || !newest->stalled)) continue;
    newest = &candidate;
    its = state;
  }
  return newest;
}

uint64_t steps_made(const WorldRecord& record, std::span<const Entry> entries) {
  uint64_t most = 0;
  for (const Entry& entry : entries) {
    const auto progress = parse_progress(entry.value);
    if (!progress.ok() || progress->reached.lineage != record.active_lineage) continue;
    most = std::max(most, progress->reached.step);
  }
  return most;
}

Status MembershipObserver::update(std::span<const Entry> entries, Time now) {
  const Entry* world = find_entry(entries, keys_.world());
  const Revision revision = world == nullptr ? 0 : world->revision;
  if (revision != record_revision_) {
    std::optional<WorldRecord> record;
    if (world != nullptr) {
      FFDL_ASSIGN_OR_RETURN(record, parse_world(world->value));
    }
    if (!record_ || !record || record_->generation != record->generation) facts_.formed = now;
    count_failures(record);
    record_ = std::move(record);
    record_revision_ = revision;
    facts_.absent.clear();
  }

  const Entry* leader = find_entry(entries, keys_.leader());
  const Revision elected = leader == nullptr ? 0 : leader->revision;
  if (elected != leader_revision_) {
    leader_revision_ = elected;
    leader_.reset();
    if (leader != nullptr) {
      auto parsed = parse_leader(leader->value);
      if (parsed.ok()) leader_ = Leader{std::move(parsed).value(), leader->lease};
    }
  }

  const auto note = [](std::map<std::string, uint64_t>& lives, std::string_view id,
                       const Entry& entry) {
    const auto incarnation = parse_number(entry.value);
    if (!id.empty()) lives[std::string(id)] = incarnation.ok() ? *incarnation : 0;
  };
  facts_.dead.clear();
  facts_.left.clear();
  std::map<std::string, Known> seen;
  for (const Entry& entry : entries) {
    const auto candidate = rest_of(entry.key, keys_.candidates());
    if (!candidate.empty()) see_candidate(candidate, entry, now, seen);
    note(facts_.dead, rest_of(entry.key, keys_.deaths()), entry);
    note(facts_.left, rest_of(entry.key, keys_.departures()), entry);
  }
  known_ = std::move(seen);
  facts_.candidates.clear();
  for (const auto& [id, known] : known_) {
    if (!facts_.is_dead(known.candidate.member)) facts_.candidates.push_back(known.candidate);
  }
  count_absences(now);
  return {};
}

void MembershipObserver::see_candidate(std::string_view id, const Entry& entry, Time now,
                                       std::map<std::string, Known>& seen) {
  const auto before = known_.find(std::string(id));
  const bool is_known = before != known_.end();
  if (is_known && before->second.revision == entry.revision) {
    seen.insert(*before);
    return;
  }
  const auto parsed = parse_candidate(entry.value);
  if (!parsed.ok() || !is_name(id)) {
    base::log_warning("ignore key '{}': {}", entry.key,
                      parsed.ok() ? "it does not end in an id" : parsed.status().message());
    return;
  }
  Known known;
  known.revision = entry.revision;
  known.candidate = {.member = {std::string(id), parsed->incarnation, parsed->address},
                     .leaving = parsed->leaving,
                     .failed_generation = parsed->failed_generation,
                     .joined = entry.revision,
                     .since = now,
                     .takes_over_from = parsed->takes_over_from,
                     .unreached = parsed->unreached};
  if (is_known && before->second.candidate.member == known.candidate.member) {
    known.candidate.joined = before->second.candidate.joined;
    known.candidate.since = before->second.candidate.since;
    known.candidate.stalled = before->second.candidate.stalled;
  }
  for (const Unreached& one : known.candidate.unreached) {
    const bool is_same = is_known && contains(before->second.candidate.unreached, one);
    known.candidate.unreached_since[one.id] =
        is_same ? before->second.candidate.unreached_since.at(one.id) : now;
  }
  seen.emplace(id, std::move(known));
}

bool MembershipObserver::needs(const Member& member, bool holds_state) const {
  const Candidate* candidate = facts_.find(member);
  if (candidate == nullptr) return true;
  if (!candidate->leaving) return !is_replaced(member);
  if (!record_) return false;
  const bool may_be_base =
      holds_state && record_->recovery == Recovery::kForward && lacks_state_holders();
  if (!contains(record_->members, member) && !contains(record_->state_holders, member) &&
      !may_be_base) {
    return false;
  }
  return std::any_of(
      facts_.candidates.begin(), facts_.candidates.end(),
      [&](const Candidate& other) { return !other.leaving && may_want(other, *candidate); });
}

bool MembershipObserver::may_want(const Candidate& other, const Candidate& leaving) const {
  if (!record_->completion) return true;
  return std::max(other.worlds_unreached(leaving.member), leaving.worlds_unreached(other.member)) <
         kUnreachedWorldsFree;
}

bool MembershipObserver::is_replaced(const Member& member) const {
  if (!record_ || contains(record_->state_holders, member) || contains(record_->members, member)) {
    return false;
  }
  const Candidate* successor = facts_.find_successor(member, record_->state_holders);
  return successor != nullptr && contains(record_->state_holders, successor->member);
}

void MembershipObserver::count_absences(Time now) {
  if (!record_) return;
  for (const Member& state_holder : record_->state_holders) {
    if (facts_.find(state_holder) != nullptr) {
      facts_.absent.erase(state_holder.id);
    } else {
      facts_.absent.emplace(state_holder.id, now);
    }
  }
}

void MembershipObserver::count_failures(const std::optional<WorldRecord>& record) {
  if (!record_ || !record || record_->active_generation != record->active_generation) {
    facts_.failed_worlds = 0;
    return;
  }
  const bool has_failed = std::ranges::any_of(record_->members, [&](const Member& member) {
    const Candidate* candidate = facts_.find(member);
    return candidate != nullptr && candidate->failed_generation == record_->generation;
  });
  const bool is_over = record_->generation != record->generation;
  if (is_over && record_->phase == Phase::kForming && has_failed) ++facts_.failed_worlds;
}

MembershipObserver::Lag MembershipObserver::read_lag(const Member& member,
                                                     const Entry* entry) const {
  Lag lag;
  lag.revision = entry == nullptr ? 0 : entry->revision;
  lag.progress.incarnation = member.incarnation;
  const auto before = lags_.find(member.id);
  const bool is_known =
      before != lags_.end() && before->second.progress.incarnation == member.incarnation;
  if (is_known && before->second.revision == lag.revision) {
    lag.progress = before->second.progress;
  } else if (entry != nullptr) {
    const auto parsed = parse_progress(entry->value);
    if (parsed.ok() && parsed->incarnation == member.incarnation) lag.progress = *parsed;
  }
  if (is_known && before->second.progress == lag.progress) lag.since = before->second.since;
  return lag;
}

void MembershipObserver::update_advances(std::span<const Entry> entries, Time now) {
  std::map<std::string, Advance> advances;
  for (const Candidate& candidate : facts_.candidates) {
    const Member& member = candidate.member;
    const Entry* entry = find_entry(entries, keys_.progress(member.id));
    if (entry == nullptr) continue;
    const auto parsed = parse_progress(entry->value);
    if (!parsed.ok() || parsed->incarnation != member.incarnation) continue;
    Advance advance = {parsed->incarnation, parsed->generation, now};
    const auto before = advances_.find(member.id);
    if (before != advances_.end() && before->second.incarnation == advance.incarnation &&
        before->second.generation == advance.generation) {
      advance.since = before->second.since;
    }
    advances.emplace(member.id, advance);
  }
  advances_ = std::move(advances);
}

bool MembershipObserver::lacks_state_holders() const {
  if (!record_ || record_->completion) return false;
  if (record_->state_holders.empty()) return record_->begins_lineage();
  return std::ranges::none_of(record_->state_holders, [&](const Member& state_holder) {
    return facts_.find(state_holder) != nullptr;
  });
}

void MembershipObserver::update_states(std::span<const Entry> entries, Time now) {
  std::map<std::string, Holding> states;
  for (const Entry& entry : entries) {
    const std::string id(rest_of(entry.key, keys_.all_progress()));
    const auto progress = parse_progress(entry.value);
    if (!is_name(id) || !progress.ok() || !progress->holds) continue;
    Holding holding = {progress->incarnation, *progress->holds, {}};
    if (facts_.find({id, holding.incarnation}) == nullptr) {
      const auto before = facts_.states.find(id);
      const bool is_known =
          before != facts_.states.end() && before->second.incarnation == holding.incarnation;
      holding.absent = is_known && before->second.absent ? *before->second.absent : now;
    }
    states.emplace(id, holding);
  }
  facts_.states = std::move(states);
}

std::vector<AbsentLife> MembershipObserver::absent_lives(std::span<const Entry> entries) const {
  std::vector<AbsentLife> lives;
  if (!lacks_state_holders()) return lives;
  for (const Entry& entry : entries) {
    const std::string id(rest_of(entry.key, keys_.all_progress()));
    const auto progress = parse_progress(entry.value);
    if (!is_name(id) || !progress.ok() || progress->process.empty()) continue;
    const Member life = {id, progress->incarnation};
    if (!contains(record_->state_holders, life) && !progress->holds) continue;
    if (facts_.find(life) != nullptr || facts_.is_dead(life) || facts_.has_left(life)) continue;
    lives.push_back({life, progress->process});
  }
  return lives;
}

void MembershipObserver::forgive(Duration standstill, Time now) {
  for (auto& [id, lag] : lags_) {
    if (lag.since) lag.since = std::min(now, *lag.since + standstill);
  }
}

void MembershipObserver::update_progress(std::span<const Entry> entries, Time now,
                                         Duration step_timeout) {
  if (!record_) return;
  if (record_->completion) {  // no member has a step to make: it sends its state, or waits for it
    lags_.clear();
    for (Candidate& candidate : facts_.candidates) {
      candidate.stalled = known_[candidate.member.id].candidate.stalled = false;
    }
    return;
  }
  const auto is_member = [&](const Member& member) { return contains(record_->members, member); };
  std::map<std::string, Lag> lags;
  Progress furthest;
  for (const Candidate& candidate : facts_.candidates) {
    const Member& member = candidate.member;
    const Lag lag = read_lag(member, find_entry(entries, keys_.progress(member.id)));
    if (is_member(member) && furthest.is_behind(lag.progress)) furthest = lag.progress;
    lags.emplace(member.id, lag);
  }
  for (Candidate& candidate : facts_.candidates) {
    Lag& lag = lags.at(candidate.member.id);
    // A candidate that is no longer a member has no steps to follow: it does not become stalled.
    // One that was stalled remains so until it reports otherwise.
    if (!is_member(candidate.member)) {
      if (!candidate.stalled) lag.since.reset();
    } else {
      const bool is_behind = lag.progress.is_behind(furthest);
      if (!is_behind) lag.since.reset();
      if (is_behind && !lag.since) lag.since = now;
    }
    candidate.stalled = lag.since && now - *lag.since >= step_timeout;
    known_[candidate.member.id].candidate.stalled = candidate.stalled;
  }
  lags_ = std::move(lags);
}

}  // namespace ffdl::membership
