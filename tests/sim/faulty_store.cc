#include "sim/faulty_store.h"

#include <algorithm>

#include "base/errors.h"
#include "membership/membership_records.h"

namespace ffdl::sim {

using base::make_error;
using namespace std::chrono_literals;

namespace {

void make_active(membership::WorldRecord& record) {
  record.phase = Phase::kActive;
  record.active_generation = record.generation;
  record.active_lineage = record.lineage;
  record.state_holders = record.members;
}

Status is_killed() { return make_error(StatusCode::kCancelled, "ask the store: killed"); }
Status no_answer() { return make_error(StatusCode::kUnavailable, "ask the store: no answer"); }

bool is_world(std::string_view key) { return key.ends_with("/who/world"); }

}  // namespace

// Carries a request or a reply.
Status FaultyStore::reach() {
  if (node_.is_killed()) return is_killed();
  // Delays are mostly short, so that schedules progress; now and then they reach the maximum.
  const Duration most = runtime_.chance(0.1) ? faults_.delay_max : faults_.delay_max / 20;
  runtime_.sleep(runtime_.up_to(most));
  if (node_.is_killed()) return is_killed();
  if (!is_cut_off()) return {};
  runtime_.sleep(runtime_.up_to(50ms));
  return node_.is_killed() ? is_killed() : no_answer();
}

template <class Operation>
auto FaultyStore::call(Operation&& operation) -> decltype(operation()) {
  FFDL_RETURN_IF_ERROR(reach());
  if (runtime_.chance(faults_.lose_request)) return no_answer();
  auto result = operation();
  FFDL_RETURN_IF_ERROR(reach());
  if (runtime_.chance(faults_.lose_reply)) {
    if (runtime_.chance(0.5)) return no_answer();
    return make_error(StatusCode::kTimeout, "ask the store: the reply is lost");
  }
  return result;
}

Result<Entry> FaultyStore::get(std::string_view key) {
  return call([&] { return inner_.get(key); });
}

Result<std::vector<Entry>> FaultyStore::list(std::string_view prefix) {
  return call([&] { return inner_.list(prefix); });
}

Result<Revision> FaultyStore::put(std::string_view key, std::string_view value, LeaseId lease) {
  return call([&] { return inner_.put(key, value, lease); });
}

Result<Revision> FaultyStore::compare_and_put(std::string_view key, Revision expected,
                                              std::string_view value, LeaseId lease) {
  return call([&]() -> Result<Revision> {
    if (is_world(key)) return write_world(key, expected, value);
    if (mutant_ == Mutant::kSameIncarnation && key.find("/incarnation/") != key.npos) {
      return inner_.put(key, "0");
    }
    return inner_.compare_and_put(key, expected, value, lease);
  });
}

Result<Revision> FaultyStore::write_world(std::string_view key, Revision expected,
                                          std::string_view value) {
  std::string text(value);
  const auto change = [&](auto&& how) {
    auto record = membership::parse_world(text);
    if (!record.ok() || record->state_holders.empty()) return;
    how(*record);
    text = encode(*record);
  };
  if (mutant_ == Mutant::kLatestOverlap) {
    change([](auto& record) { record.state_holders = record.members; });
  }
  if (mutant_ == Mutant::kNoCarrierGoesBack) {
    change([](auto& record) {
      if (record.gives_up()) record.state_holders.clear();
    });
  }
  if (mutant_ == Mutant::kForgetsCompletion) {
    change([](auto& record) { record.completion.reset(); });
  }
  if (mutant_ == Mutant::kBornActive) change(make_active);
  const auto put = mutant_ == Mutant::kNoCompare ? inner_.put(key, text)
                                                 : inner_.compare_and_put(key, expected, text);
  if (put.ok()) on_world_(expected, {std::string(key), text, *put, kNoLease});
  return put;
}

Status FaultyStore::remove(std::string_view key) {
  return call([&] { return inner_.remove(key); });
}

Result<Revision> FaultyStore::wait_change(std::string_view prefix, Revision after, Time deadline) {
  return call([&] {
    const Duration until = node_.when(deadline);
    const Time there =
        until == kNever ? kNoDeadline : clock_.now() + std::max(until - runtime_.elapsed(), 0ns);
    return inner_.wait_change(prefix, after, there);
  });
}

Result<LeaseId> FaultyStore::grant_lease(Duration ttl) {
  if (!renewed_) renewed_ = node_.now();  // of its first life
  return call([&] { return inner_.grant_lease(ttl); });
}

Status FaultyStore::keep_alive(LeaseId lease) {
  const Time start = node_.now();
  const Status kept = call([&] { return inner_.keep_alive(lease); });
  if (mutant_ == Mutant::kReturnsUnasked && kept.code() == StatusCode::kNotFound) return {};
  if (kept.ok()) renewed_ = start;
  return kept;
}

Status FaultyStore::end_lease(LeaseId lease) {
  return call([&] { return inner_.end_lease(lease); });
}

}  // namespace ffdl::sim
