#include "comm/operation/rendezvous.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/operation/world_key.h"

namespace ffdl::comm {
namespace {

std::string prefix_of(const World& world, std::string_view topic) {
  return fmt::format("{}/{}/", meeting_key(world), topic);
}

Result<std::vector<std::string>> read_all(const World& world, Store& store,
                                          const std::string& prefix, Time deadline) {
  std::vector<std::string> records;
  Revision seen = 0;
  while (records.size() < world.members.size()) {
    const size_t rank = records.size();
    Result<Entry> entry = store.get(fmt::format("{}{}", prefix, rank));
    if (entry.ok()) {
      records.push_back(std::move(entry->value));
      continue;
    }
    if (entry.status().code() != StatusCode::kNotFound) return entry.status();
    Result<Revision> changed = store.wait_change(prefix, seen, deadline);
    if (!changed.ok()) {
      return std::move(changed).status().with_context(
          fmt::format("connect {} as rank {}: rank {} '{}' has not arrived", name_of(world),
                      world.rank, rank, world.members[rank].id));
    }
    seen = *changed;
  }
  return records;
}

}  // namespace

Duration life_until(Time deadline) {
  const Time now = std::chrono::steady_clock::now();
  const Time last = std::min<Time>(std::max(deadline, now), now + base::kLeaseMax);
  return std::max<Duration>(last - now, base::kRecordLifeMin);
}

Result<Told> exchange_records(const World& world, Store& store, std::string_view topic,
                              std::string_view record, Time deadline) {
  const std::string prefix = prefix_of(world, topic);
  FFDL_ASSIGN_OR_RETURN(const LeaseId lease, store.grant_lease(life_until(deadline)));
  Result<Revision> told =
      store.compare_and_put(fmt::format("{}{}", prefix, world.rank), 0, record, lease);
  if (!told.ok() && told.status().code() == StatusCode::kConflict) {
    told = base::make_error(StatusCode::kWorldChanged,
                            "connect {} as rank {}: another process has begun it as that rank; a "
                            "member that comes back needs a new incarnation, and a new generation",
                            name_of(world), world.rank);
  }
  Result<std::vector<std::string>> records =
      told.ok() ? read_all(world, store, prefix, deadline) : std::move(told).status();
  if (records.ok()) return Told{.records = std::move(records).value(), .lease = lease};
  const Status ended = store.end_lease(lease);
  return ended.ok() ? records.status()
                    : std::move(records).status().with_context(ended.to_string());
}

}  // namespace ffdl::comm
