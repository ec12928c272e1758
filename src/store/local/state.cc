#include "store/local/state.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "base/printable.h"
#include "store/failures.h"

namespace ffdl::store {

using base::invalid_argument;
using base::make_error;

Result<Entry> State::get(std::string_view key, Time now) {
  end_old_leases(now);
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second;
  return no_such_key(key);
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

Status State::check_entry(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > base::kStoreKeyMax) {
    return invalid_argument("put '{}': a key of {} bytes; use 1 to {}", key.substr(0, 64),
                            key.size(), base::kStoreKeyMax);
  }
  if (!base::is_utf8(key)) {
    return invalid_argument("put '{}': the key is not UTF-8; use UTF-8, since listings show keys",
                            base::printable(key.substr(0, 64)));
  }
  if (value.size() > base::kStoreValueMax) {
    return invalid_argument(
        "put '{}': a value of {} bytes; the most is {}, because a store is not for large data", key,
        value.size(), base::kStoreValueMax);
  }
  return {};
}

Status State::may_put(std::string_view key, std::optional<Revision> expected,
                      std::string_view value, LeaseId lease) const {
  FFDL_RETURN_IF_ERROR(check_entry(key, value));
  if (lease != kNoLease && !leases_.contains(lease)) return lease_has_ended("put under", lease);
  const auto found = entries_.find(key);
  const bool is_new = found == entries_.end();
  const Revision present = is_new ? 0 : found->second.revision;
  if (expected.has_value() && present != *expected) {
    return has_other_revision(key, *expected, present);
  }
  const size_t freed = is_new ? 0 : bytes_of(key, found->second.value);
  if (bytes_ - freed + bytes_of(key, value) > base::kStoreBytesMax) {
    return make_error(StatusCode::kExhausted,
                      "put '{}': the store is full, it holds {} of {} bytes; remove keys, or end "
                      "leases that hold some",
                      key, bytes_, base::kStoreBytesMax);
  }
  return {};
}

Result<Revision> State::put(std::string_view key, std::string_view value, LeaseId lease, Time now) {
  end_old_leases(now);
  FFDL_RETURN_IF_ERROR(may_put(key, std::nullopt, value, lease));
  return note_put(key, value, lease);
}

Result<Revision> State::compare_and_put(std::string_view key, Revision expected,
                                        std::string_view value, LeaseId lease, Time now) {
  end_old_leases(now);
  FFDL_RETURN_IF_ERROR(may_put(key, expected, value, lease));
  return note_put(key, value, lease);
}

void State::remove(std::string_view key, Time now) {
  end_old_leases(now);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  note_change(key);
  bytes_ -= bytes_of(key, found->second.value);
  entries_.erase(found);
}

Result<LeaseId> State::grant_lease(Duration ttl, Time now) {
  end_old_leases(now);
  FFDL_RETURN_IF_ERROR(check_ttl(ttl));
  if (leases_.size() >= base::kStoreLeasesMax) {
    return make_error(StatusCode::kExhausted,
                      "grant a lease: the store has {} of them, which is the most; end some",
                      leases_.size());
  }
  leases_[++last_lease_] = {ttl, now + ttl};
  none_ends_before_ = std::min(none_ends_before_, now + ttl);
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
  if (after == 0 || after > revision_) return true;  // the store has started over: read it again
  if (revision_ - after > changes_.size()) return true;
  for (auto at = changes_.rbegin(); at != changes_.rend() && at->revision > after; ++at) {
    if (at->key.starts_with(prefix)) return true;
  }
  return false;
}

Time State::next_end() const {
  Time next = kNoDeadline;
  for (const auto& [id, lease] : leases_) next = std::min(next, lease.ends);
  return next;
}

void State::skip_revisions(uint64_t count) {
  revision_ += count;
  changes_.clear();
}

void State::extend_leases(Time now) {
  for (auto& [id, lease] : leases_) lease.ends = now + lease.ttl;
  none_ends_before_ = next_end();
}

void State::end_old_leases(Time now) {
  if (now < none_ends_before_) return;
  for (auto at = leases_.begin(); at != leases_.end();) {
    if (at->second.ends > now) {
      ++at;
      continue;
    }
    drop_keys_of(at->first);
    at = leases_.erase(at);
  }
  none_ends_before_ = next_end();
}

void State::drop_keys_of(LeaseId lease) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.lease != lease) {
      ++at;
      continue;
    }
    note_change(at->first);
    bytes_ -= bytes_of(at->first, at->second.value);
    at = entries_.erase(at);
  }
}

size_t State::bytes_of(std::string_view key, std::string_view value) {
  return key.size() + value.size() + base::kStoreEntryBytes;
}

Revision State::note_put(std::string_view key, std::string_view value, LeaseId lease) {
  const Revision revision = note_change(key);
  const auto old = entries_.find(key);
  if (old != entries_.end()) bytes_ -= bytes_of(key, old->second.value);
  bytes_ += bytes_of(key, value);
  entries_[std::string(key)] = {std::string(key), std::string(value), revision, lease};
  return revision;
}

Revision State::note_change(std::string_view key) {
  changes_.push_back({++revision_, std::string(key)});
  if (changes_.size() > base::kStoreChangesMax) changes_.pop_front();
  return revision_;
}

}  // namespace ffdl::store
