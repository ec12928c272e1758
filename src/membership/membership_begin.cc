#include <algorithm>

#include "base/check.h"
#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "base/thread.h"
#include "membership/membership_impl.h"

// The begin of a member's life: its first one, and one after the fence.
namespace ffdl {

using base::make_error;
using base::MutexLock;
using membership::contains;
using membership::parse_number;

Status Membership::Impl::start() {
  FFDL_RETURN_IF_ERROR(base::launcher_watch().check("member '{}'", self_.id));
  // A member that is refused writes nothing: a candidate would be part of the next world.
  FFDL_RETURN_IF_ERROR(observe());
  FFDL_RETURN_IF_ERROR(check_record());
  FFDL_RETURN_IF_ERROR(find_predecessor());
  FFDL_RETURN_IF_ERROR(take_incarnation());
  return begin_life();
}

// Waits for its own task first: nothing of this life may be written after the next one began.
Result<std::unique_ptr<Membership::Impl>> Membership::Impl::rejoin(
    const std::optional<StateLabel>& state, const std::function<bool()>& is_wanted) {
  if (!is_fenced()) {
    return base::invalid_argument(
        "member '{}': begin its next life: the fence has not ended this one; join instead",
        self_.id);
  }
  std::unique_ptr<Task> task;
  {
    MutexLock lock(mutex_);
    task = std::move(task_);
  }
  task.reset();
  auto next = std::make_unique<Impl>(store_, runtime_, self_, options_);
  next->takes_over_from_ = takes_over_from_;
  next->report_state(state);
  while (true) {
    const Status begun = next->begin_next_life(self_, is_wanted);
    if (begun.ok()) return next;
    const bool may_pass = begun.code() == StatusCode::kTimeout ||
                          begun.code() == StatusCode::kUnavailable ||
                          begun.code() == StatusCode::kConflict ||
                          begun.code() == StatusCode::kNotFound;
    if (!may_pass) return begun;
    if (!is_wanted()) {
      return make_error(StatusCode::kTimeout,
                        "member '{}': it could not join again after it was away: {}", self_.id,
                        begun.message());
    }
    pause(kNoDeadline);
  }
}

// May be called again after a failure. The earlier life is reported dead last: until then others
// wait for the state that it held, and from then on this life is known to hold it.
Status Membership::Impl::begin_next_life(const Member& earlier,
                                         const std::function<bool()>& is_wanted) {
  FFDL_RETURN_IF_ERROR(base::launcher_watch().check("member '{}'", self_.id));
  const bool has_begun = [&] {
    MutexLock lock(mutex_);
    return task_ != nullptr;
  }();
  if (!has_begun) {
    FFDL_RETURN_IF_ERROR(observe());
    FFDL_RETURN_IF_ERROR(check_record());
    if (const auto& record = sightings_.record()) {
      note_record(*record, sightings_.record_revision());
    }
    FFDL_RETURN_IF_ERROR(check_return(earlier));
    if (self_.incarnation == earlier.incarnation) FFDL_RETURN_IF_ERROR(take_next_incarnation());
    if (!is_wanted()) return make_error(StatusCode::kTimeout, "its time is over");
    FFDL_RETURN_IF_ERROR(begin_life());
  }
  return report_death(store_, options_.job, earlier);
}

// Another process may have joined under this id, or have taken the place of this member, since its
// life ended.
Status Membership::Impl::check_return(const Member& earlier) const {
  FFDL_RETURN_IF_ERROR(check_replaced());
  const auto& record = sightings_.record();
  for (const membership::Candidate& other : sightings_.facts().candidates) {
    const bool has_taken_over = record && other.replaces(earlier) &&
                                contains(record->state_holders, other.member) &&
                                !contains(record->state_holders, earlier);
    if (has_taken_over) {
      return make_error(StatusCode::kCancelled,
                        "member '{}': '{}' took over from it while it was away; end", self_.id,
                        other.member.id);
    }
  }
  return {};
}

Status Membership::Impl::begin_life() {
  FFDL_RETURN_IF_ERROR(read_reached());
  {
    MutexLock lock(mutex_);
    clock_ = membership::LifeClock(options_, runtime_.boottime());
  }
  if (!clock_task_) {
    clock_task_ =
        runtime_.spawn("ffdl-clock", [this](const StopToken& stop) { watch_clock(stop); });
    if (!clock_task_) return base::no_thread("ffdl-clock");
  }
  // Before others can see this life: a leader without state holders waits for members that may hold
  // a newer state, and the end of its process proves its death.
  FFDL_RETURN_IF_ERROR(tell_progress());
  FFDL_RETURN_IF_ERROR(enter_first());
  auto task = runtime_.spawn("ffdl-member", [this](const StopToken& stop) { run(stop); });
  if (task) {
    MutexLock lock(mutex_);
    task_ = std::move(task);
    return {};
  }
  static_cast<void>(store_.end_lease(lease_).ok());  // otherwise the others wait until it ends
  return base::no_thread("ffdl-member");
}

Result<Membership::Impl::Taken> Membership::Impl::read_incarnation(const std::string& id) const {
  const auto entry = store_.get(keys_.incarnation(id));
  if (entry.status().code() == StatusCode::kNotFound) return Taken{};
  if (!entry.ok()) return entry.status();
  FFDL_ASSIGN_OR_RETURN(const uint64_t incarnation, parse_number(entry->value));
  return Taken{incarnation, entry->revision};
}

// Runs before this life begins, so that no two members can take over from each other.
Status Membership::Impl::find_predecessor() {
  const std::string& id = options_.takes_over_from;
  if (id.empty()) return {};
  FFDL_ASSIGN_OR_RETURN(const Taken last, read_incarnation(id));
  if (last.incarnation > 0) takes_over_from_ = Member{id, last.incarnation};
  return {};
}

Status Membership::Impl::take_incarnation() {
  for (int attempt = 0; attempt < base::kContentionMax; ++attempt) {
    FFDL_ASSIGN_OR_RETURN(const Taken last, read_incarnation(self_.id));
    const auto put = store_.compare_and_put(keys_.incarnation(self_.id), last.revision,
                                            std::to_string(last.incarnation + 1));
    if (put.ok()) {
      self_.incarnation = last.incarnation + 1;
      return {};
    }
    if (put.status().code() != StatusCode::kConflict) return put.status();
  }
  return make_error(StatusCode::kUnavailable,
                    "take an incarnation of '{}': other processes took {} incarnations meanwhile; "
                    "give each member a different id",
                    self_.id, base::kContentionMax);
}

// Takes the incarnation after this one, unless another process has done so. One that this object
// tried to take without an answer may be its own.
Status Membership::Impl::take_next_incarnation() {
  FFDL_ASSIGN_OR_RETURN(const Taken last, read_incarnation(self_.id));
  if (last.incarnation > std::max(self_.incarnation, tried_incarnation_)) {
    return make_error(StatusCode::kCancelled,
                      "member '{}': another process has taken its id, as incarnation {}; end, or "
                      "join again under another id",
                      self_.id, last.incarnation);
  }
  // The store may have lost it.
  const uint64_t next = std::max(last.incarnation, self_.incarnation) + 1;
  const auto put =
      store_.compare_and_put(keys_.incarnation(self_.id), last.revision, std::to_string(next));
  const StatusCode code = put.status().code();
  if (put.ok()) self_.incarnation = next;
  if (!put.ok() && code != StatusCode::kConflict) tried_incarnation_ = next;
  return put.status();
}

}  // namespace ffdl
