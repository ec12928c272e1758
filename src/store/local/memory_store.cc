#include "store/local/memory_store.h"

#include <algorithm>

#include "store/failures.h"

namespace ffdl::store {

template <class Change>
auto MemoryStore::apply(Change&& change) {
  const Time now = runtime_.now();
  Waiters waiters;
  auto result = [&] {
    base::MutexLock lock(mutex_);
    const Revision before = state_.revision();
    auto outcome = change(state_, now);
    if (state_.revision() != before) waiters = waiters_;
    return outcome;
  }();
  for (const auto& waiter : waiters) waiter->set();
  return result;
}

Result<Entry> MemoryStore::get(std::string_view key) {
  return apply([&](State& state, Time now) { return state.get(key, now); });
}

Result<std::vector<Entry>> MemoryStore::list(std::string_view prefix) {
  return apply([&](State& state, Time now) { return state.list(prefix, now); });
}

Result<Revision> MemoryStore::put(std::string_view key, std::string_view value, LeaseId lease) {
  return apply([&](State& state, Time now) { return state.put(key, value, lease, now); });
}

Result<Revision> MemoryStore::compare_and_put(std::string_view key, Revision expected,
                                              std::string_view value, LeaseId lease) {
  return apply([&](State& state, Time now) {
    return state.compare_and_put(key, expected, value, lease, now);
  });
}

Status MemoryStore::remove(std::string_view key) {
  return apply([&](State& state, Time now) {
    state.remove(key, now);
    return Status();
  });
}

Result<Revision> MemoryStore::wait_change(std::string_view prefix, Revision after, Time deadline) {
  struct Look {
    bool changed;
    Revision revision;
    Time next_end;
  };
  const std::shared_ptr<Event> event = runtime_.make_event();
  {
    base::MutexLock lock(mutex_);
    waiters_.insert(event);
  }
  Result<Revision> result = Revision{0};
  while (true) {
    event->reset();  // before the check: a change after it sets the event again
    const Look look = apply([&](State& state, Time now) {
      const bool changed = state.has_changed(prefix, after, now);
      return Look{changed, state.revision(), state.next_end()};
    });
    result = look.revision;
    if (look.changed) break;
    if (runtime_.now() >= deadline) {
      result = no_change(prefix, after);
      break;
    }
    event->wait_until(std::min(deadline, look.next_end));
  }
  base::MutexLock lock(mutex_);
  waiters_.erase(event);
  return result;
}

Result<LeaseId> MemoryStore::grant_lease(Duration ttl) {
  return apply([&](State& state, Time now) { return state.grant_lease(ttl, now); });
}

Status MemoryStore::keep_alive(LeaseId lease) {
  return apply([&](State& state, Time now) { return state.keep_alive(lease, now); });
}

Status MemoryStore::end_lease(LeaseId lease) {
  return apply([&](State& state, Time now) {
    state.end_lease(lease, now);
    return Status();
  });
}

}  // namespace ffdl::store
