#include "data/ledger/worker_lease.h"

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <utility>

#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "base/thread.h"

namespace ffdl::data {

using base::make_error;

Result<std::unique_ptr<WorkerLease>> WorkerLease::take(Store& store, Runtime& runtime,
                                                       std::string key, Duration lease) {
  auto taken = std::unique_ptr<WorkerLease>(new WorkerLease(store, runtime, std::move(key), lease));
  FFDL_ASSIGN_OR_RETURN(taken->lease_, store.grant_lease(lease));
  FFDL_RETURN_IF_ERROR(taken->put(std::nullopt));
  return taken;
}

WorkerLease::~WorkerLease() {
  task_.reset();
  // A lease that is not ended here expires by itself.
  if (lease_ != kNoLease) static_cast<void>(store_.end_lease(lease_).ok());
}

Status WorkerLease::begin(uint64_t incarnation) {
  value_ = std::to_string(incarnation);
  Status begun = put(again_);
  if (begun.code() == StatusCode::kConflict) begun = lost_key();
  FFDL_RETURN_IF_ERROR(begun);
  task_ = runtime_.spawn("ffdl-ledger", [this](const StopToken& stop) { run(stop); });
  return task_ ? Status() : base::no_thread("ffdl-ledger");
}

Status WorkerLease::give_up() {
  task_.reset();
  FFDL_RETURN_IF_ERROR(life_status());
  if (lease_ != kNoLease) FFDL_RETURN_IF_ERROR(store_.end_lease(lease_));
  lease_ = kNoLease;
  return {};
}

Status WorkerLease::take_again(Revision expected) {
  value_.clear();
  FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(duration_));
  const Status taken = put(expected);
  if (taken.code() != StatusCode::kConflict) return taken;
  return make_error(StatusCode::kUnavailable,
                    "put '{}': it has changed since it was read; try again", key_);
}

Status WorkerLease::put(std::optional<Revision> expected) {
  const auto put = expected ? store_.compare_and_put(key_, *expected, value_, lease_)
                            : store_.put(key_, value_, lease_);
  if (put.status().code() == StatusCode::kNotFound) return took_too_long();
  if (put.ok() && expected) again_ = *put;
  return put.status();
}

// Explains why the key is no longer as take_again() has put it.
Status WorkerLease::lost_key() const {
  const auto entry = store_.get(key_);
  if (entry.status().code() == StatusCode::kNotFound) return took_too_long();
  FFDL_RETURN_IF_ERROR(entry.status());
  return make_error(StatusCode::kCancelled,
                    "begin a life with '{}': another life has the key; join again", key_);
}

Status WorkerLease::took_too_long() const {
  return make_error(StatusCode::kUnavailable,
                    "put '{}': the store took longer than the lease of {} ms; try again, or give "
                    "it a longer one",
                    key_, std::chrono::ceil<std::chrono::milliseconds>(duration_).count());
}

Status WorkerLease::life_status() const {
  const base::MutexLock lock(mutex_);
  return over_;
}

void WorkerLease::run(const StopToken& stop) {
  const auto event = runtime_.make_event();
  const std::stop_callback wake(stop, [&event] { event->set(); });
  Time next = runtime_.now() + duration_ / 4;
  while (!stop.stop_requested()) {
    // A lease may be long, and the launcher's end is to be found soon.
    const Time look =
        base::launcher_watch().has_launcher() ? runtime_.now() + base::kLookInterval : kNoDeadline;
    if (event->wait_until(std::min<Time>(next, look))) return;
    Status renewed = base::launcher_watch().check("holder of '{}'", key_);
    if (renewed.ok() && runtime_.now() < next) continue;
    if (renewed.ok()) renewed = renew();
    next = runtime_.now() + (renewed.ok() ? duration_ / 4 : Duration(base::kStoreRetry));
    if (renewed.code() != StatusCode::kCancelled) continue;
    const base::MutexLock lock(mutex_);
    over_ = renewed;
    return;
  }
}

Status WorkerLease::renew() {
  if (lease_ != kNoLease) {
    const Status kept = store_.keep_alive(lease_);
    if (kept.code() != StatusCode::kNotFound) return kept;
    lease_ = kNoLease;
  }
  const auto entry = store_.get(key_);
  if (!entry.ok() && entry.status().code() != StatusCode::kNotFound) return entry.status();
  if (entry.ok() && entry->value != value_) {
    return make_error(StatusCode::kCancelled,
                      "renew the lease of '{}': it ended, and another life has the key; join again",
                      key_);
  }
  FFDL_ASSIGN_OR_RETURN(const LeaseId lease, store_.grant_lease(duration_));
  const auto put = store_.compare_and_put(key_, entry.ok() ? entry->revision : 0, value_, lease);
  if (put.ok()) lease_ = lease;
  return put.ok() ? Status() : put.status();
}

}  // namespace ffdl::data
