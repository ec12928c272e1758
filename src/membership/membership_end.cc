#include <algorithm>

#include "base/errors.h"
#include "base/log.h"
#include "membership/membership_impl.h"

// The part of Membership that handles the end of a world and of a job, and the loss of its state.
namespace ffdl {

using base::make_error;
using base::MutexLock;

// Reads progress always at the leader. Another member reads it only while a newer generation forms
// than the one it works in, since others may have left that one.
Status Membership::Impl::read_progress() {
  const bool leads = is_leader();
  {
    MutexLock lock(mutex_);
    const bool is_behind = progress_.generation < view_.record.generation;
    if (!is_behind) view_.advances.clear();
    if (!is_behind && !leads) return {};
  }
  FFDL_ASSIGN_OR_RETURN(const auto entries, store_.list(keys_.all_progress()));
  const Time now = runtime_.now();
  if (leads) sightings_.update_progress(entries, now, options_.step_timeout);
  sightings_.update_advances(entries, now);
  MutexLock lock(mutex_);
  view_.advances = sightings_.advances();
  return {};
}

// A lost member may come back before the next observation, and is a candidate again.
void Membership::Impl::note_missed(const std::vector<Member>& members, uint64_t generation) {
  for (const Member& member : members) {
    if (membership::contains(view_.candidates, member)) continue;
    view_.missed[member.id] = {member.incarnation, generation};
  }
}

bool Membership::Impl::has_gone_on(const Member& member, uint64_t generation) const {
  const Time now = runtime_.now();
  MutexLock lock(mutex_);
  const auto missed = view_.missed.find(member.id);
  if (missed != view_.missed.end() && missed->second.incarnation == member.incarnation &&
      missed->second.generation >= generation && view_.record.generation > generation &&
      !membership::contains(view_.record.members, member)) {
    return true;
  }
  const auto found = view_.advances.find(member.id);
  if (found == view_.advances.end()) return false;
  const membership::Advance& advance = found->second;
  return advance.incarnation == member.incarnation && advance.generation > generation &&
         now - advance.since >= 2 * options_.lease;
}

Status Membership::Impl::complete(const StateLabel& end, Time deadline) {
  return change_world(
      "complete", deadline, [&](const WorldRecord& record) -> Result<std::optional<WorldRecord>> {
        const auto& known = record.completion;
        const bool is_over =
            known ? known->lineage != end.lineage
                  : record.lineage != end.lineage || record.active_generation != end.generation;
        if (is_over) {
          return make_error(
              StatusCode::kWorldChanged,
              "complete job '{}' in generation {}: generation {} followed it; continue there",
              options_.job, end.generation, record.generation);
        }
        if (known && known->step == end.step && known->hash == end.hash) {
          return std::optional<WorldRecord>();
        }
        if (known) {
          return make_error(StatusCode::kInternal,
                            "complete job '{}' at step {}: it ended at step {} with another state; "
                            "apply() must give the same bits at all members",
                            options_.job, end.step, known->step);
        }
        WorldRecord next = record;
        next.completion = end;
        return std::optional<WorldRecord>(std::move(next));
      });
}

std::optional<StateLabel> Membership::Impl::completion() const {
  MutexLock lock(mutex_);
  return view_.record.completion;
}

bool Membership::Impl::is_state_held() const {
  const Time now = runtime_.now();
  MutexLock lock(mutex_);
  return now < view_.state_held_until;
}

// Checks how far the lost state had come. A member's progress record outlives it, and its next life
// keeps it.
Status Membership::Impl::check_lost_state() {
  FFDL_ASSIGN_OR_RETURN(const auto entries, store_.list(keys_.all_progress()));
  const uint64_t reached = membership::steps_made(*sightings_.record(), entries);
  if (reached == 0) return {};
  const std::string what =
      fmt::format("job '{}': no member and no checkpoint has the state (it was at step {})",
                  options_.job, reached);
  if (options_.on_lost_state == OnLostState::kRestart) {
    base::log_warning("{}; training begins again, give checkpoints to keep the state", what);
    return {};
  }
  return make_error(StatusCode::kCancelled,
                    "{}; the job does not start again, because on_lost_state is 'fail'; write "
                    "checkpoints, or give the job another name",
                    what);
}

// Returns the latest time at which a state holder may hold the state.
Time Membership::Impl::state_held_until() const {
  const auto& record = sightings_.record();
  if (!record) return kNoDeadline;
  Time last = Time::min();
  for (const Member& state_holder : record->state_holders) {
    const auto until =
        membership::holds_until(state_holder, sightings_.facts(), runtime_.now(), options_);
    if (until) last = std::max(last, *until);
  }
  return last;
}

bool Membership::Impl::has_ended_by_leaving() const {
  MutexLock lock(mutex_);
  return must_tell_departure_;
}

Status Membership::Impl::leave(Time deadline) {
  if (!has_ended_by_leaving()) FFDL_RETURN_IF_ERROR(end_by_leaving(deadline));
  // In this order: a member that is known to be gone is then known to have left. Each write may be
  // repeated.
  FFDL_RETURN_IF_ERROR(
      store_.put(keys_.departure(self_.id), std::to_string(self_.incarnation), kNoLease).status());
  FFDL_RETURN_IF_ERROR(report_death(store_, options_.job, self_));
  const Status ended = store_.end_lease(lease_);
  if (!ended.ok() && ended.code() != StatusCode::kNotFound) return ended;
  MutexLock lock(mutex_);
  must_tell_departure_ = false;
  return {};
}

}  // namespace ffdl
