#include "membership/membership_impl.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"

namespace ffdl {

using base::make_error;
using base::MutexLock;
using membership::contains;
using membership::parse_candidate;
using membership::parse_number;
using membership::parse_world;

namespace {

// No later attempt can end otherwise.
bool is_final(StatusCode code) {
  return code == StatusCode::kCancelled || code == StatusCode::kCorrupt ||
         code == StatusCode::kInvalidArgument;
}

World world_seen_by(const Member& self, const membership::WorldRecord& record) {
  const auto place = std::find(record.members.begin(), record.members.end(), self);
  const int rank =
      place == record.members.end() ? -1 : static_cast<int>(place - record.members.begin());
  return {record.generation, rank, record.members, record.lineage, record.phase, record.carriers,
          record.gives_up()};
}

// Orders the states of one lineage.
bool is_before(const CheckpointPointer& a, const CheckpointPointer& b) {
  return std::pair(a.generation, a.step) < std::pair(b.generation, b.step);
}

}  // namespace

Membership::Impl::Impl(Store& store, Runtime& runtime, Member self,
                       const MembershipOptions& options)
    : store_(store),
      runtime_(runtime),
      self_(std::move(self)),
      options_(options),
      keys_(options.job),
      sightings_(keys_) {}

Membership::Impl::~Impl() {
  end(make_error(StatusCode::kCancelled, "member '{}': its object is gone", self_.id));
  std::unique_ptr<Task> task;
  {
    MutexLock lock(mutex_);
    task = std::move(task_);
  }
}

Status Membership::Impl::start() {
  FFDL_RETURN_IF_ERROR(find_predecessor());
  FFDL_RETURN_IF_ERROR(take_incarnation());
  note_renewal(runtime_.now());
  FFDL_RETURN_IF_ERROR(enter());
  auto task = runtime_.spawn("ffdl-member", [this](const StopToken& stop) { run(stop); });
  MutexLock lock(mutex_);
  task_ = std::move(task);
  return {};
}

// --- the task ------------------------------------------------------------------------------------

void Membership::Impl::run(const StopToken& stop) {
  while (!stop.stop_requested()) {
    const Status outcome = turn();
    if (outcome.ok()) continue;
    if (is_final(outcome.code())) {
      end(outcome);
      return;
    }
    must_look_ = true;
    pause(kNoDeadline);
  }
}

Status Membership::Impl::turn() {
  FFDL_RETURN_IF_ERROR(standing());
  if (lease_ != kNoLease && runtime_.now() >= next_beat_) FFDL_RETURN_IF_ERROR(beat());
  if (lease_ == kNoLease) FFDL_RETURN_IF_ERROR(enter());
  if (must_look_) FFDL_RETURN_IF_ERROR(look());
  FFDL_RETURN_IF_ERROR(lead());
  const auto seen = store_.wait_change(keys_.prefix(), seen_, std::min(next_beat_, again_));
  if (seen.ok()) {
    seen_ = *seen;
    must_look_ = true;
    return {};
  }
  return seen.status().code() == StatusCode::kTimeout ? Status() : seen.status();
}

// Before this life begins, so that no two can take over from each other.
Status Membership::Impl::find_predecessor() {
  const std::string& id = options_.takes_over_from;
  if (id.empty()) return {};
  const auto entry = store_.get(keys_.incarnation(id));
  if (entry.status().code() == StatusCode::kNotFound) return {};
  if (!entry.ok()) return entry.status();
  FFDL_ASSIGN_OR_RETURN(const uint64_t incarnation, parse_number(entry->value));
  if (incarnation > 0) takes_over_from_ = Member{id, incarnation};
  return {};
}

Status Membership::Impl::take_incarnation() {
  const std::string key = keys_.incarnation(self_.id);
  for (int attempt = 0; attempt < base::kContentionMax; ++attempt) {
    const auto entry = store_.get(key);
    if (!entry.ok() && entry.status().code() != StatusCode::kNotFound) return entry.status();
    uint64_t last = 0;
    if (entry.ok()) {
      FFDL_ASSIGN_OR_RETURN(last, parse_number(entry->value));
    }
    const auto put =
        store_.compare_and_put(key, entry.ok() ? entry->revision : 0, std::to_string(last + 1));
    if (put.ok()) {
      self_.incarnation = last + 1;
      return {};
    }
    if (put.status().code() != StatusCode::kConflict) return put.status();
  }
  return make_error(StatusCode::kUnavailable,
                    "take an incarnation of '{}': others took {} meanwhile; give each member an id "
                    "of its own",
                    self_.id, base::kContentionMax);
}

// A lease, and the key that makes a candidate. One whose lease had ended may have been counted as
// absent: if the job is about to begin anew because of that, then its new lease counts only once
// the record is another, so that one of the two writes fails.
Status Membership::Impl::enter() {
  const Time start = runtime_.now();
  FFDL_ASSIGN_OR_RETURN(const LeaseId lease, store_.grant_lease(options_.lease));
  FFDL_RETURN_IF_ERROR(put_candidate(lease));
  if (has_lapsed_) {
    const Status written =
        change_world("come back into", start + options_.lease,
                     [&](const WorldRecord& record) -> Result<std::optional<WorldRecord>> {
                       if (!contains(record.carriers, self_)) return std::optional<WorldRecord>();
                       return std::optional<WorldRecord>(record);
                     });
    if (!written.ok() && written.code() != StatusCode::kNotFound) return written;
  }
  lease_ = lease;
  next_beat_ = start + options_.heartbeat;
  told_progress_ = {};
  note_renewal(start);
  return {};
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
      return make_error(StatusCode::kCancelled,
                        "member '{}': incarnation {} has taken the place of {}; end, or join again "
                        "under another id",
                        self_.id, other->incarnation, self_.incarnation);
    }
  }
  const membership::CandidateRecord mine = {self_.incarnation, self_.address, wishes.leaving,
                                            wishes.failed_generation, takes_over_from_};
  const auto put =
      store_.compare_and_put(key, entry.ok() ? entry->revision : 0, encode(mine), lease);
  if (!put.ok()) return put.status();
  told_wishes_ = wishes;
  return {};
}

Status Membership::Impl::beat() {
  const Time start = runtime_.now();
  const Status kept = store_.keep_alive(lease_);
  if (kept.code() == StatusCode::kNotFound) {
    lease_ = kNoLease;
    has_lapsed_ = true;
    return {};
  }
  FFDL_RETURN_IF_ERROR(kept);
  note_renewal(start);
  next_beat_ = start + options_.heartbeat;
  FFDL_RETURN_IF_ERROR(tell_wishes());
  FFDL_RETURN_IF_ERROR(tell_progress());
  if (!is_leader()) return {};
  FFDL_ASSIGN_OR_RETURN(const auto progress, store_.list(keys_.all_progress()));
  sightings_.update_progress(progress, runtime_.now(), options_.step_timeout);
  return {};
}

Status Membership::Impl::tell_wishes() {
  {
    MutexLock lock(mutex_);
    if (wishes_ == told_wishes_) return {};
  }
  return put_candidate(lease_);
}

Status Membership::Impl::tell_progress() {
  membership::Progress progress;
  {
    MutexLock lock(mutex_);
    progress = progress_;
  }
  progress.incarnation = self_.incarnation;
  if (progress == told_progress_) return {};
  const auto put = store_.put(keys_.progress(self_.id), encode(progress), lease_);
  if (put.ok()) told_progress_ = progress;
  return put.ok() ? Status() : put.status();
}

Status Membership::Impl::look() {
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store_.list(keys_.prefix()));
  FFDL_RETURN_IF_ERROR(sightings_.update(entries, runtime_.now()));
  must_look_ = false;
  const membership::Facts& facts = sightings_.facts();
  if (facts.is_dead(self_)) {
    return make_error(StatusCode::kCancelled,
                      "member '{}': incarnation {} was reported dead; end, or join again", self_.id,
                      self_.incarnation);
  }
  for (const auto& candidate : facts.candidates) {
    if (candidate.member.id == self_.id && candidate.member.incarnation > self_.incarnation) {
      return make_error(StatusCode::kCancelled,
                        "member '{}': incarnation {} has taken the place of {}; end, or join again "
                        "under another id",
                        self_.id, candidate.member.incarnation, self_.incarnation);
    }
  }
  const auto& record = sightings_.record();
  if (record && record->recovery != options_.recovery) {
    return base::invalid_argument(
        "join job '{}' as '{}': its recovery from a death is {}, this member's {}; give all "
        "members the same MembershipOptions::recovery, or the job another name",
        options_.job, self_.id, membership::to_string(record->recovery),
        membership::to_string(options_.recovery));
  }
  if (record) note_record(*record, sightings_.record_revision());
  std::vector<Member> candidates;
  for (const auto& candidate : facts.candidates) candidates.push_back(candidate.member);
  {
    MutexLock lock(mutex_);
    view_.is_needed = is_needed();
    view_.candidates = std::move(candidates);
  }
  wake();
  return {};
}

// One snapshot must show both that this member has asked, and who stays: before it has asked,
// others may be about to build on it.
bool Membership::Impl::is_needed() const {
  const auto* mine = sightings_.facts().find(self_);
  if (mine == nullptr) return true;
  if (!mine->leaving) return !is_replaced();
  const auto& record = sightings_.record();
  if (!record) return false;
  if (!contains(record->members, self_) && !contains(record->carriers, self_)) return false;
  const auto& candidates = sightings_.facts().candidates;
  return std::any_of(candidates.begin(), candidates.end(),
                     [](const membership::Candidate& other) { return !other.leaving; });
}

// Its successor has the state, and no world that is or may come has this member.
bool Membership::Impl::is_replaced() const {
  const auto& record = sightings_.record();
  if (!record || contains(record->carriers, self_) || contains(record->members, self_))
    return false;
  const auto* successor = sightings_.facts().find_successor(self_, record->carriers);
  return successor != nullptr && contains(record->carriers, successor->member);
}

Status Membership::Impl::lead() {
  again_ = kNoDeadline;
  const auto& leader = sightings_.leader();
  bool leads = leader && leader->member == self_ && leader->lease == lease_;
  if (!leader) {
    const auto put =
        store_.compare_and_put(keys_.leader(), 0, membership::encode_leader(self_), lease_);
    must_look_ = true;
    leads = put.ok();
    const StatusCode code = put.status().code();
    if (code == StatusCode::kNotFound) next_beat_ = runtime_.now();  // the lease: beat() sees it
    if (!leads && code != StatusCode::kConflict && code != StatusCode::kNotFound) {
      return put.status();
    }
  }
  {
    MutexLock lock(mutex_);
    view_.leads = leads;
  }
  if (!leads) return {};

  const auto& record = sightings_.record();
  if (record && record->leader != self_) {
    WorldRecord next = *record;
    ++next.term;
    next.leader = self_;
    return write_world(next);
  }
  auto decision = membership::decide_world(record, sightings_.facts(), runtime_.now(), options_);
  again_ = decision.again;
  if (decision.reason != reason_) {
    reason_ = decision.reason;
    base::log_at(decision.waiting_for.empty() ? LogLevel::kInfo : LogLevel::kWarning,
                 "job '{}': {}", options_.job, reason_);
  }
  if (!decision.next) return {};
  if (!record) {
    decision.next->term = 1;
    decision.next->leader = self_;
  }
  return write_world(*decision.next);
}

// Only if nobody has written since the record was read: who is no longer the leader fails here.
Status Membership::Impl::write_world(const WorldRecord& next) {
  must_look_ = true;
  const auto put =
      store_.compare_and_put(keys_.world(), sightings_.record_revision(), encode(next));
  if (put.ok()) {
    note_record(next, *put);
    return {};
  }
  return put.status().code() == StatusCode::kConflict ? Status() : put.status();
}

// --- what both sides use -------------------------------------------------------------------------

void Membership::Impl::note_record(const WorldRecord& record, Revision revision) {
  {
    MutexLock lock(mutex_);
    if (revision <= view_.revision) return;
    view_.revision = revision;
    view_.record = record;
  }
  wake();
}

void Membership::Impl::note_renewal(Time start) {
  MutexLock lock(mutex_);
  renewed_ = start;
}

void Membership::Impl::end(Status why) const {
  {
    MutexLock lock(mutex_);
    if (over_.ok()) over_ = std::move(why);
  }
  wake();
}

void Membership::Impl::wake() const {
  std::set<std::shared_ptr<Event>> waiters;
  {
    MutexLock lock(mutex_);
    waiters = waiters_;
  }
  for (const auto& waiter : waiters) waiter->set();
}

void Membership::Impl::pause(Time deadline) {
  runtime_.make_event()->wait_until(std::min<Time>(deadline, runtime_.now() + base::kStoreRetry));
}

Result<Membership::Impl::WorldRecord> Membership::Impl::read_record(const Entry& entry) {
  {
    MutexLock lock(mutex_);
    if (entry.revision == view_.revision) return view_.record;
  }
  FFDL_ASSIGN_OR_RETURN(WorldRecord record, parse_world(entry.value));
  note_record(record, entry.revision);
  return record;
}

Status Membership::Impl::change_world(std::string_view doing, Time deadline, const Change& change) {
  while (true) {
    FFDL_RETURN_IF_ERROR(standing());
    auto entry = store_.get(keys_.world());
    Status outcome = entry.status();
    if (entry.ok()) {
      FFDL_ASSIGN_OR_RETURN(const WorldRecord record, read_record(*entry));
      FFDL_ASSIGN_OR_RETURN(const auto next, change(record));
      if (!next) return {};
      const auto put = store_.compare_and_put(keys_.world(), entry->revision, encode(*next));
      if (put.ok()) {
        note_record(*next, *put);
        return {};
      }
      outcome = put.status();
    }
    if (is_final(outcome.code()) || outcome.code() == StatusCode::kNotFound) return outcome;
    if (runtime_.now() >= deadline) {
      return make_error(StatusCode::kTimeout,
                        "{} the world of job '{}': {}; whether it was written is unknown", doing,
                        options_.job, outcome.message());
    }
    if (outcome.code() != StatusCode::kConflict) pause(deadline);
  }
}

template <class Done>
Status Membership::Impl::wait_for(std::string_view doing, Time deadline, Done&& done) {
  const std::shared_ptr<Event> event = runtime_.make_event();
  Status outcome;
  while (true) {
    event->reset();  // before the look: what comes after it sets the event again
    outcome = standing();
    bool is_done = false;
    {
      MutexLock lock(mutex_);
      waiters_.insert(event);
      is_done = done(view_);
    }
    if (!outcome.ok() || is_done) break;
    if (runtime_.now() >= deadline) {
      outcome =
          make_error(StatusCode::kTimeout,
                     "{} in job '{}': not before the deadline; wait longer, or see why in the "
                     "leader's log",
                     doing, options_.job);
      break;
    }
    event->wait_until(deadline);
  }
  MutexLock lock(mutex_);
  waiters_.erase(event);
  return outcome;
}

// --- calls of the user ---------------------------------------------------------------------------

World Membership::Impl::world() const {
  MutexLock lock(mutex_);
  return world_seen_by(self_, view_.record);
}

bool Membership::Impl::is_leader() const {
  MutexLock lock(mutex_);
  return view_.leads;
}

bool Membership::Impl::is_candidate(const Member& member) const {
  MutexLock lock(mutex_);
  return contains(view_.candidates, member);
}

Status Membership::Impl::standing() const {
  const Time now = runtime_.now();
  bool fenced = false;
  {
    MutexLock lock(mutex_);
    if (!over_.ok()) return over_;
    fenced = now >= renewed_ + options_.fence_after;
  }
  if (!fenced) return {};
  end(make_error(StatusCode::kCancelled,
                 "member '{}': the store did not answer for {} s, so others may begin anew without "
                 "it; drop the state and join again",
                 self_.id,
                 std::chrono::duration_cast<std::chrono::seconds>(options_.fence_after).count()));
  MutexLock lock(mutex_);
  return over_;
}

Result<World> Membership::Impl::wait_world_after(uint64_t generation, Time deadline) {
  World world;
  FFDL_RETURN_IF_ERROR(wait_for("wait for a newer world", deadline, [&](const View& view) {
    world = world_seen_by(self_, view.record);
    return view.record.generation > generation;
  }));
  return world;
}

Status Membership::Impl::activate(uint64_t generation, Time deadline) {
  return change_world(
      "activate", deadline, [&](const WorldRecord& record) -> Result<std::optional<WorldRecord>> {
        if (record.active_generation == generation) return std::optional<WorldRecord>();
        if (record.generation != generation) {
          return make_error(StatusCode::kWorldChanged,
                            "activate generation {} of job '{}': {} is forming; take that one",
                            generation, options_.job, record.generation);
        }
        WorldRecord next = record;
        next.phase = Phase::kActive;
        next.active_generation = generation;
        next.active_lineage = record.lineage;
        next.carriers = record.members;
        return std::optional<WorldRecord>(std::move(next));
      });
}

Status Membership::Impl::wait_active(uint64_t generation, Time deadline) {
  bool is_active = false;
  FFDL_RETURN_IF_ERROR(wait_for("wait until a world is active", deadline, [&](const View& view) {
    is_active = view.record.active_generation == generation;
    return is_active || view.record.generation > generation;
  }));
  if (is_active) return {};
  return make_error(StatusCode::kWorldChanged,
                    "wait until generation {} of job '{}' is active: a newer one is forming; take "
                    "that one",
                    generation, options_.job);
}

void Membership::Impl::report_progress(uint64_t generation, uint64_t step) {
  MutexLock lock(mutex_);
  progress_ = {0, generation, step};
}

void Membership::Impl::report_failure(uint64_t generation) {
  MutexLock lock(mutex_);
  wishes_.failed_generation = generation;
}

std::optional<CheckpointPointer> Membership::Impl::checkpoint() const {
  MutexLock lock(mutex_);
  return view_.record.checkpoint;
}

std::optional<CheckpointPointer> Membership::Impl::restart_base() const {
  MutexLock lock(mutex_);
  return view_.record.restart_base;
}

Status Membership::Impl::publish_checkpoint(const CheckpointPointer& checkpoint, Time deadline) {
  return change_world(
      "publish a checkpoint in", deadline,
      [&](const WorldRecord& record) -> Result<std::optional<WorldRecord>> {
        if (record.lineage != checkpoint.lineage) {
          return make_error(StatusCode::kWorldChanged,
                            "publish checkpoint '{}': it is of lineage {}, and the job began anew "
                            "in lineage {}; drop it",
                            checkpoint.manifest, checkpoint.lineage, record.lineage);
        }
        if (record.checkpoint == checkpoint) return std::optional<WorldRecord>();
        if (record.checkpoint && record.checkpoint->lineage == checkpoint.lineage &&
            !is_before(*record.checkpoint, checkpoint)) {
          return make_error(StatusCode::kConflict,
                            "publish checkpoint '{}': '{}' is there, which is not older; drop it",
                            checkpoint.manifest, record.checkpoint->manifest);
        }
        WorldRecord next = record;
        next.checkpoint = checkpoint;
        return std::optional<WorldRecord>(std::move(next));
      });
}

void Membership::Impl::ask_to_leave() {
  MutexLock lock(mutex_);
  wishes_.leaving = true;
}

bool Membership::Impl::may_leave() const {
  MutexLock lock(mutex_);
  return !view_.is_needed;
}

Status Membership::Impl::leave(Time deadline) {
  ask_to_leave();
  FFDL_RETURN_IF_ERROR(
      wait_for("leave", deadline, [](const View& view) { return !view.is_needed; }));
  std::unique_ptr<Task> task;
  {
    MutexLock lock(mutex_);
    task = std::move(task_);
  }
  task.reset();
  end(make_error(StatusCode::kCancelled, "member '{}': it has left job '{}'", self_.id,
                 options_.job));
  // In this order: once it is known to be gone it is known to have left.
  FFDL_RETURN_IF_ERROR(
      store_.put(keys_.departure(self_.id), std::to_string(self_.incarnation), kNoLease).status());
  FFDL_RETURN_IF_ERROR(report_death(store_, options_.job, self_));
  return store_.end_lease(lease_);
}

}  // namespace ffdl
