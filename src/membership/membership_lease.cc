#include <optional>

#include "base/errors.h"
#include "base/log.h"
#include "membership/membership_impl.h"

// The member's lease: how it is granted and renewed, and the data that each renewal carries.
namespace ffdl {

using base::make_error;
using base::MutexLock;
using membership::contains;
using membership::parse_candidate;

namespace {

// A member whose lease ended before the store had its key retries this many times.
constexpr int kEnterRetries = 2;

}  // namespace

// Enters with retries. A lease may end before its key is stored because of one lost packet. The key
// of the previous life may end with its lease just when this one replaces it.
Status Membership::Impl::enter_first() {
  Status entered = enter();
  for (int retry = 0; retry < kEnterRetries; ++retry) {
    const StatusCode code = entered.code();
    if (code != StatusCode::kNotFound && code != StatusCode::kConflict) return entered;
    entered = enter();
  }
  if (entered.code() != StatusCode::kNotFound) return entered;
  return make_error(StatusCode::kTimeout,
                    "join job '{}' as '{}': its lease of {} ms ended {} times before the store had "
                    "the member's record; {}",
                    options_.job, self_.id,
                    std::chrono::duration_cast<std::chrono::milliseconds>(options_.lease).count(),
                    kEnterRetries + 1,
                    advice_.empty() ? "is this machine, or the store's, too busy" : advice_);
}

void Membership::Impl::judge_lease(bool has_ended) {
  if (!advice_.empty()) return;
  advice_ = round_trips_.advice(options_.lease, has_ended).value_or("");
  if (!advice_.empty()) base::log_warning("member '{}': {}", self_.id, advice_);
}

// Takes a lease and writes the candidate's key under it. A member whose lease had ended may have
// been counted as absent. If the job may start over because of that, the new lease is valid only
// once the record has changed. So one of the two writes fails.
Status Membership::Impl::enter() {
  const Renewal renewal = begin_renewal();
  const Time start = runtime_.now();
  if (has_lapsed_) FFDL_RETURN_IF_ERROR(check_return_to());
  FFDL_ASSIGN_OR_RETURN(const LeaseId lease, store_.grant_lease(options_.lease));
  round_trips_.add(runtime_.now() - start);
  const Status put = put_candidate(lease);
  if (put.code() == StatusCode::kNotFound) judge_lease(true);
  FFDL_RETURN_IF_ERROR(put);
  if (has_lapsed_) {
    const Status written = change_world(
        "return to", start + options_.lease,
        [&](const WorldRecord& record) { return return_to(record); }, &Impl::life_so_far);
    if (!written.ok() && written.code() != StatusCode::kNotFound) return written;
  }
  lease_ = lease;
  next_beat_ = start + options_.heartbeat;
  told_progress_ = {};
  note_renewal(renewal);
  return {};
}

Status Membership::Impl::check_return_to() const {
  {
    MutexLock lock(mutex_);
    const auto standing = clock_.look(runtime_.boottime());
    if (standing != membership::LifeClock::Standing::kAsks) return {};
  }
  const auto entry = store_.get(keys_.world());
  if (entry.status().code() == StatusCode::kNotFound) return {};
  FFDL_RETURN_IF_ERROR(Status(entry.status()));
  FFDL_ASSIGN_OR_RETURN(const WorldRecord record, membership::parse_world(entry->value));
  return return_to(record).status();
}

// Returns the record to write when this member returns. A state holder of the record confirms it
// so: no lineage has begun without it. Another member has nothing to confirm. But after a
// standstill that reached the fence, it may have been a state holder of a world that is given up.
Result<std::optional<Membership::Impl::WorldRecord>> Membership::Impl::return_to(
    const WorldRecord& record) const {
  if (contains(record.state_holders, self_)) return std::optional<WorldRecord>(record);
  std::string stood;
  {
    MutexLock lock(mutex_);
    const bool asks = clock_.look(runtime_.boottime()) == membership::LifeClock::Standing::kAsks;
    if (!asks || record.generation == renewed_generation_) return std::optional<WorldRecord>();
    stood = clock_.why_not_renewed();
  }
  end_at_fence(
      fmt::format("{}, and generation {} was formed without it", stood, record.generation));
  return life_so_far();
}

Status Membership::Impl::put_candidate(LeaseId lease) {
  const std::string key = keys_.candidate(self_.id);
  const Wishes wishes = [&] {
    MutexLock lock(mutex_);
    return wishes_;
  }();
  const auto entry = store_.get(key);
  if (!entry.ok() && entry.status().code() != StatusCode::kNotFound) return entry.status();
  if (entry.ok()) {
    const auto other = parse_candidate(entry->value);
    if (other.ok() && other->incarnation > self_.incarnation) {
      return replaced_by(other->incarnation);
    }
  }
  const membership::CandidateRecord mine = {self_.incarnation, self_.address,
                                            wishes.leaving,    wishes.failed_generation,
                                            takes_over_from_,  wishes.unreached};
  const auto put =
      store_.compare_and_put(key, entry.ok() ? entry->revision : 0, encode(mine), lease);
  if (!put.ok()) return put.status();
  told_wishes_ = wishes;
  return {};
}

Status Membership::Impl::beat() {
  const Renewal renewal = begin_renewal();
  const Time start = runtime_.now();
  const Status kept = store_.keep_alive(lease_);
  if (kept.ok() || kept.code() == StatusCode::kNotFound) {
    round_trips_.add(runtime_.now() - start);
    judge_lease(!kept.ok());
  }
  if (kept.code() == StatusCode::kNotFound) {
    lease_ = kNoLease;
    has_lapsed_ = true;
    return {};
  }
  FFDL_RETURN_IF_ERROR(kept);
  note_renewal(renewal);
  next_beat_ = start + options_.heartbeat;
  FFDL_RETURN_IF_ERROR(tell_wishes());
  FFDL_RETURN_IF_ERROR(tell_progress());
  return read_progress();
}

Status Membership::Impl::tell_wishes() {
  {
    MutexLock lock(mutex_);
    if (wishes_ == told_wishes_) return {};
  }
  return put_candidate(lease_);
}

// Reads the progress of earlier lives, which this life's will replace. The mark of the earlier
// process is lost then, so its death is reported now.
Status Membership::Impl::read_reached() {
  const auto entry = store_.get(keys_.progress(self_.id));
  if (entry.status().code() == StatusCode::kNotFound) return {};
  FFDL_RETURN_IF_ERROR(Status(entry.status()));
  const auto progress = membership::parse_progress(entry->value);
  if (!progress.ok()) return {};
  reached_ = progress->reached;
  if (progress->incarnation >= self_.incarnation || !runtime_.has_ended(progress->process)) {
    return {};
  }
  return report_death(store_, options_.job, {self_.id, progress->incarnation});
}

// Notes the applied step, which is the one before the step that was begun. A generation that is not
// in the record identifies no lineage, so its progress is ignored.
void Membership::Impl::note_reached(const membership::Progress& progress) {
  if (progress.step < 2) return;
  uint64_t lineage = 0;
  {
    // The view may be newer than the last look: this member may have written the record since.
    MutexLock lock(mutex_);
    const WorldRecord& record = view_.record;
    const bool is_newest = progress.generation == record.generation;
    if (!is_newest && progress.generation != record.active_generation) return;
    lineage = is_newest ? record.lineage : record.active_lineage;
  }
  const uint64_t step = progress.step - 1;
  if (lineage != reached_.lineage || step > reached_.step) reached_ = {lineage, step};
}

Status Membership::Impl::tell_progress() {
  membership::Progress progress;
  {
    MutexLock lock(mutex_);
    progress = progress_;
  }
  progress.incarnation = self_.incarnation;
  progress.process = process_mark_;
  note_reached(progress);
  progress.reached = reached_;
  if (progress == told_progress_) return {};
  // Under no lease: if all members die, it records what was lost.
  const auto put = store_.put(keys_.progress(self_.id), encode(progress), kNoLease);
  if (put.ok()) told_progress_ = progress;
  return put.ok() ? Status() : put.status();
}

}  // namespace ffdl
