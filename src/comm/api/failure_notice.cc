#include "comm/api/failure_notice.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/parse_count.h"
#include "comm/operation/rendezvous.h"
#include "comm/operation/world_key.h"

namespace ffdl::comm {
namespace {

constexpr auto kCheckInterval = std::chrono::milliseconds(500);

std::string key_of(const World& world) { return meeting_key(world) + "/failed"; }

bool is_own(StatusCode code) {
  return code != StatusCode::kOk && code != StatusCode::kTimeout &&
         code != StatusCode::kPeerLost && code != StatusCode::kWorldChanged &&
         code != StatusCode::kCancelled;
}

}  // namespace

FailureNotice::FailureNotice(const World& world, Store& store, Time deadline)
    : world_(world),
      store_(&store),
      deadline_(deadline),
      next_check_(deadline_in(kCheckInterval)) {}

Status FailureNotice::check() {
  if (store_ == nullptr || std::chrono::steady_clock::now() < next_check_) return {};
  next_check_ = deadline_in(kCheckInterval);
  const Result<Entry> found = store_->get(key_of(world_));
  if (!found.ok()) return {};  // mostly kNotFound; a failing store ends the wait itself
  const std::string_view record = found->value;
  const size_t end = std::min(record.find(' '), record.size());
  const std::optional<int> rank = base::parse_count(record.substr(0, end));
  if (!rank || *rank >= world_.size()) {
    return base::make_error(StatusCode::kCorrupt,
                            "connect {}: the store has '{}' as the notice of a failed member; has "
                            "something written to the store",
                            name_of(world_), record);
  }
  if (*rank == world_.rank) return {};
  return base::make_error(StatusCode::kPeerLost,
                          "connect {} as rank {}: rank {} '{}' failed: {}; form a new world",
                          name_of(world_), world_.rank, *rank,
                          world_.members[static_cast<size_t>(*rank)].id,
                          record.substr(std::min(end + 1, record.size())));
}

void FailureNotice::close(const Status& connected) {
  Store* const store = std::exchange(store_, nullptr);
  if (store == nullptr || world_.size() == 1 || !is_own(connected.code())) return;
  // If the store fails too, the others wait until their deadlines.
  const Result<LeaseId> lease = store->grant_lease(life_until(deadline_));
  if (!lease.ok()) return;
  static_cast<void>(store->compare_and_put(
      key_of(world_), 0, fmt::format("{} {}", world_.rank, connected.message()), *lease));
}

}  // namespace ffdl::comm
