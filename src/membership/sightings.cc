#include "membership/sightings.h"

#include <algorithm>

#include "base/log.h"

namespace ffdl::membership {
namespace {

// The rest of a key after a prefix that it begins with.
std::string_view rest_of(std::string_view key, std::string_view prefix) {
  return key.starts_with(prefix) ? key.substr(prefix.size()) : std::string_view();
}

const Entry* find_entry(std::span<const Entry> entries, std::string_view key) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace

const Candidate* Facts::find(const Member& member) const {
  const auto found =
      std::find_if(candidates.begin(), candidates.end(),
                   [&](const Candidate& candidate) { return candidate.member == member; });
  return found == candidates.end() ? nullptr : &*found;
}

bool Facts::is_dead(const Member& member) const {
  const auto found = dead.find(member.id);
  return found != dead.end() && found->second >= member.incarnation;
}

Status Sightings::update(std::span<const Entry> entries, Time now) {
  const Entry* world = find_entry(entries, keys_.world());
  const Revision revision = world == nullptr ? 0 : world->revision;
  if (revision != record_revision_) {
    std::optional<WorldRecord> record;
    if (world != nullptr) {
      FFDL_ASSIGN_OR_RETURN(record, parse_world(world->value));
    }
    record_ = std::move(record);
    record_revision_ = revision;
    facts_.absent.clear();
  }

  std::optional<Leader> leader;
  if (const Entry* entry = find_entry(entries, keys_.leader())) {
    auto parsed = parse_leader(entry->value);
    if (parsed.ok()) leader = Leader{std::move(parsed).value(), entry->lease};
  }
  leader_ = std::move(leader);

  facts_.dead.clear();
  std::map<std::string, Known> seen;
  for (const Entry& entry : entries) {
    const auto candidate = rest_of(entry.key, keys_.candidates());
    if (!candidate.empty()) see_candidate(candidate, entry, now, seen);
    const auto death = rest_of(entry.key, keys_.deaths());
    if (!death.empty())
      facts_.dead[std::string(death)] =
          parse_number(entry.value).ok() ? *parse_number(entry.value) : 0;
  }
  known_ = std::move(seen);
  facts_.candidates.clear();
  for (const auto& [id, known] : known_) {
    if (!facts_.is_dead(known.candidate.member)) facts_.candidates.push_back(known.candidate);
  }
  count_absences(now);
  return {};
}

void Sightings::see_candidate(std::string_view id, const Entry& entry, Time now,
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
                      parsed.ok() ? "no id ends it" : parsed.status().message());
    return;
  }
  Known known;
  known.revision = entry.revision;
  known.candidate = {.member = {std::string(id), parsed->incarnation, parsed->address},
                     .leaving = parsed->leaving,
                     .failed_generation = parsed->failed_generation,
                     .joined = entry.revision,
                     .since = now};
  if (is_known && before->second.candidate.member == known.candidate.member) {
    known.candidate.joined = before->second.candidate.joined;
    known.candidate.since = before->second.candidate.since;
    known.candidate.stalled = before->second.candidate.stalled;
  }
  seen.emplace(id, std::move(known));
}

void Sightings::count_absences(Time now) {
  if (!record_) return;
  for (const Member& carrier : record_->carriers) {
    if (facts_.find(carrier) != nullptr) {
      facts_.absent.erase(carrier.id);
    } else {
      facts_.absent.emplace(carrier.id, now);
    }
  }
}

Sightings::Lag Sightings::read_lag(const Member& member, const Entry* entry) const {
  const auto before = lags_.find(member.id);
  if (entry != nullptr && before != lags_.end() && before->second.revision == entry->revision) {
    return {entry->revision, before->second.progress, {}};
  }
  if (entry == nullptr) return {};
  const auto parsed = parse_progress(entry->value);
  if (!parsed.ok() || parsed->incarnation != member.incarnation) return {entry->revision, {}, {}};
  return {entry->revision, *parsed, {}};
}

void Sightings::update_progress(std::span<const Entry> entries, Time now, Duration step_timeout) {
  if (!record_) return;
  std::map<std::string, Lag> lags;
  const auto add = [&](const Member& member) {
    lags[member.id] = read_lag(member, find_entry(entries, keys_.progress(member.id)));
  };
  for (const Candidate& candidate : facts_.candidates) add(candidate.member);
  Progress furthest;
  for (const Member& member : record_->members) {
    add(member);
    const Progress& progress = lags[member.id].progress;
    if (furthest.is_behind(progress)) furthest = progress;
  }
  for (auto& [id, lag] : lags) {
    const auto before = lags_.find(id);
    if (before != lags_.end() && before->second.progress == lag.progress) {
      lag.since = before->second.since;
    }
    const std::string& name = id;
    const bool is_member = std::any_of(record_->members.begin(), record_->members.end(),
                                       [&](const Member& member) { return member.id == name; });
    // Who is no member any more has nobody to follow, but stands still until it says otherwise.
    if (is_member && !lag.progress.is_behind(furthest)) lag.since.reset();
    if (is_member && lag.progress.is_behind(furthest) && !lag.since) lag.since = now;
  }
  lags_ = std::move(lags);
  for (Candidate& candidate : facts_.candidates) {
    const Lag& lag = lags_[candidate.member.id];
    candidate.stalled = lag.since && now - *lag.since >= step_timeout;
    known_[candidate.member.id].candidate.stalled = candidate.stalled;
  }
}

}  // namespace ffdl::membership
