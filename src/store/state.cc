#include "store/state.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::store {

using base::invalid_argument;
using base::make_error;

namespace {

Status lease_has_ended(std::string_view doing, LeaseId lease) {
  return make_error(StatusCode::kNotFound,
                    "{} lease {}: it has ended, and its keys are gone; grant another and put the "
                    "keys again",
                    doing, lease);
}

}  // namespace

Result<Entry> State::get(std::string_view key, Time now) {
  end_old_leases(now);
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second;
  return make_error(StatusCode::kNotFound, "get '{}': there is no such key; has its writer begun",
                    key);
}

std::vector<Entry> State::list(std::string_view prefix, Time now) {
  end_old_leases(now);
  std::vector<Entry> result;
  for (auto at = entries_.lower_bound(prefix); at != entries_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    result.push_back(at->second);
  }
  return result;
}

Status State::check_put(std::string_view key, std::string_view value, LeaseId lease) const {
  if (key.empty() || key.size() > base::kStoreKeyMax) {
    return invalid_argument("put '{}': a key of {} bytes; use 1 to {}", key.substr(0, 64),
                            key.size(), base::kStoreKeyMax);
  }
  if (value.size() > base::kStoreValueMax) {
    return invalid_argument(
        "put '{}': a value of {} bytes; the most is {}, as a store is not for "
        "data",
        key, value.size(), base::kStoreValueMax);
  }
  if (lease != kNoLease && !leases_.contains(lease)) return lease_has_ended("put under", lease);
  return {};
}

Result<Revision> State::put(std::string_view key, std::string_view value, LeaseId lease, Time now) {
  end_old_leases(now);
  FFDL_RETURN_IF_ERROR(check_put(key, value, lease));
  const Revision revision = note_change(key);
  entries_[std::string(key)] = {std::string(key), std::string(value), revision, lease};
  return revision;
}

Result<Revision> State::compare_and_put(std::string_view key, Revision expected,
                                        std::string_view value, LeaseId lease, Time now) {
  end_old_leases(now);
  FFDL_RETURN_IF_ERROR(check_put(key, value, lease));
  const auto found = entries_.find(key);
  const Revision present = found == entries_.end() ? 0 : found->second.revision;
  if (present != expected) {
    return make_error(StatusCode::kConflict,
                      "put '{}': expected revision {}, it has {}; read it again and decide", key,
                      expected, present);
  }
  return put(key, value, lease, now);
}

void State::remove(std::string_view key, Time now) {
  end_old_leases(now);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  note_change(key);
  entries_.erase(found);
}

Result<LeaseId> State::grant_lease(Duration ttl, Time now) {
  end_old_leases(now);
  if (ttl <= Duration::zero() || ttl > base::kLeaseMax) {
    return invalid_argument("grant a lease of {} ns: it must be above 0 and at most {} h",
                            ttl.count(), base::kLeaseMax.count());
  }
  leases_[++last_lease_] = {ttl, now + ttl};
  return last_lease_;
}

Status State::keep_alive(LeaseId lease, Time now) {
  end_old_leases(now);
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return lease_has_ended("keep alive", lease);
  found->second.ends = now + found->second.ttl;
  return {};
}

void State::end_lease(LeaseId lease, Time now) {
  end_old_leases(now);
  if (leases_.erase(lease) != 0) drop_keys_of(lease);
}

bool State::has_changed(std::string_view prefix, Revision after, Time now) {
  end_old_leases(now);
  if (after == 0 || after > revision_) return true;  // a store that began anew: look again
  if (revision_ - after > changes_.size()) return true;
  return std::any_of(changes_.rbegin(), changes_.rend(), [&](const Change& change) {
    return change.revision > after && change.key.starts_with(prefix);
  });
}

Time State::next_end() const {
  Time next = kNoDeadline;
  for (const auto& [id, lease] : leases_) next = std::min(next, lease.ends);
  return next;
}

void State::extend_leases(Time now) {
  for (auto& [id, lease] : leases_) lease.ends = now + lease.ttl;
}

void State::end_old_leases(Time now) {
  for (auto at = leases_.begin(); at != leases_.end();) {
    if (at->second.ends > now) {
      ++at;
      continue;
    }
    drop_keys_of(at->first);
    at = leases_.erase(at);
  }
}

void State::drop_keys_of(LeaseId lease) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.lease != lease) {
      ++at;
      continue;
    }
    note_change(at->first);
    at = entries_.erase(at);
  }
}

Revision State::note_change(std::string_view key) {
  changes_.push_back({++revision_, std::string(key)});
  if (changes_.size() > base::kStoreChangesMax) changes_.pop_front();
  return revision_;
}

}  // namespace ffdl::store
