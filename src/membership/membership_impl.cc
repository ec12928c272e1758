#include "membership/membership_impl.h"

#include <algorithm>

#include "base/check.h"
#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "base/log.h"

namespace ffdl {

using base::make_error;
using base::MutexLock;
using membership::contains;
using membership::parse_world;

namespace {

// Returns true if no later attempt can end otherwise.
bool is_final(StatusCode code) {
  return code == StatusCode::kCancelled || code == StatusCode::kCorrupt ||
         code == StatusCode::kInvalidArgument;
}

World world_seen_by(const Member& self, const std::string& job,
                    const membership::WorldRecord& record) {
  const auto place = std::find(record.members.begin(), record.members.end(), self);
  const int rank =
      place == record.members.end() ? -1 : static_cast<int>(place - record.members.begin());
  const bool has_begun = record.active_lineage == record.lineage;
  return {record.generation, rank,
          record.members,    record.lineage,
          record.phase,      record.state_holders,
          record.gives_up(), job,
          has_begun ? record.continues : 0};
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
      process_mark_(runtime.process_mark()),
      sightings_(keys_),
      clock_over_(runtime.make_event()),
      clock_(options, runtime.boottime()) {}

Membership::Impl::~Impl() {
  end(make_error(StatusCode::kCancelled, "member '{}': its object is gone", self_.id));
  std::unique_ptr<Task> task;
  {
    MutexLock lock(mutex_);
    task = std::move(task_);
  }
  if (clock_task_) clock_task_->request_stop();  // first: an event that is set is no wait
  clock_over_->set();
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
  FFDL_RETURN_IF_ERROR(base::launcher_watch().check("member '{}'", self_.id));
  FFDL_RETURN_IF_ERROR(life_so_far());
  note_standstill();
  if (lease_ != kNoLease && runtime_.now() >= next_beat_) FFDL_RETURN_IF_ERROR(beat());
  if (lease_ == kNoLease) FFDL_RETURN_IF_ERROR(enter());
  if (must_look_) FFDL_RETURN_IF_ERROR(look());
  FFDL_RETURN_IF_ERROR(prove_deaths());
  FFDL_RETURN_IF_ERROR(lead());
  const auto seen = store_.wait_change(keys_.prefix(), seen_, std::min(next_beat_, again_));
  if (seen.ok()) {
    seen_ = *seen;
    must_look_ = true;
    return {};
  }
  return seen.status().code() == StatusCode::kTimeout ? Status() : seen.status();
}

Status Membership::Impl::observe() {
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store_.list(keys_.prefix()));
  return sightings_.update(entries, runtime_.now());
}

Status Membership::Impl::look() {
  FFDL_RETURN_IF_ERROR(observe());
  FFDL_RETURN_IF_ERROR(read_absent_lives());
  must_look_ = false;
  const membership::Facts& facts = sightings_.facts();
  if (facts.is_dead(self_)) {
    return make_error(StatusCode::kCancelled,
                      "member '{}': incarnation {} was reported dead; end, or join again", self_.id,
                      self_.incarnation);
  }
  FFDL_RETURN_IF_ERROR(check_replaced());
  FFDL_RETURN_IF_ERROR(check_record());
  const auto& record = sightings_.record();
  std::vector<Member> candidates;
  for (const auto& candidate : facts.candidates) candidates.push_back(candidate.member);
  {
    MutexLock lock(mutex_);
    view_.is_needed = sightings_.needs(self_, progress_.holds.has_value());
    view_.state_held_until = state_held_until();
    view_.candidates = std::move(candidates);
    if (record) note_missed(record->members, record->generation);
  }
  // Last: a record that reports the job as done must not be visible before the view that belongs to
  // it.
  if (record) note_record(*record, sightings_.record_revision());
  wake();
  return {};
}

// A later life of this member may be a candidate, of another process.
Status Membership::Impl::check_replaced() const {
  for (const auto& candidate : sightings_.facts().candidates) {
    const Member& other = candidate.member;
    if (other.id == self_.id && other.incarnation > self_.incarnation) {
      return replaced_by(other.incarnation);
    }
  }
  return {};
}

Status Membership::Impl::replaced_by(uint64_t incarnation) const {
  return make_error(StatusCode::kCancelled,
                    "member '{}': incarnation {} has replaced this member's incarnation {}; end, "
                    "or join again under another id",
                    self_.id, incarnation, self_.incarnation);
}

Status Membership::Impl::check_record() const {
  const auto& record = sightings_.record();
  if (record && record->protocol != membership::kProtocolVersion && is_anyone_of_it_here()) {
    return base::invalid_argument(
        "join job '{}' as '{}': its members use version {} of the protocol, this member {}; use "
        "one version of ffdl at all members",
        options_.job, self_.id, record->protocol, membership::kProtocolVersion);
  }
  if (record && record->recovery != options_.recovery) {
    return base::invalid_argument(
        "join job '{}' as '{}': its recovery from a death is {}, this member's {}; give all "
        "members the same MembershipOptions::recovery, or the job another name",
        options_.job, self_.id, membership::to_string(record->recovery),
        membership::to_string(options_.recovery));
  }
  return {};
}

// Returns true if a member or state holder of the record is a candidate. All of them use the same
// protocol.
bool Membership::Impl::is_anyone_of_it_here() const {
  const auto& record = *sightings_.record();
  return std::ranges::any_of(sightings_.facts().candidates, [&](const auto& candidate) {
    return contains(record.members, candidate.member) ||
           contains(record.state_holders, candidate.member);
  });
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
    if (code == StatusCode::kNotFound) next_beat_ = runtime_.now();  // no lease: beat() sees it
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
  if (const auto patience = end_of_patience()) {
    again_ = *patience;
    return {};
  }
  FFDL_RETURN_IF_ERROR(read_states());
  auto decision = membership::decide_world(record, sightings_.facts(), runtime_.now(), options_);
  again_ = decision.again;
  if (decision.reason != reason_) {
    reason_ = decision.reason;
    base::log_at(decision.warns ? LogLevel::kWarning : LogLevel::kInfo, "job '{}': {}",
                 options_.job, reason_);
  }
  warn_of_left_out(decision);
  if (!decision.next) return {};
  if (decision.loses_state) FFDL_RETURN_IF_ERROR(check_lost_state());
  if (!record) {
    decision.next->term = 1;
    decision.next->leader = self_;
  }
  return write_world(*decision.next);
}

Status Membership::Impl::read_absent_lives() {
  absent_lives_.clear();
  if (!sightings_.lacks_state_holders()) return {};
  FFDL_ASSIGN_OR_RETURN(const auto entries, store_.list(keys_.all_progress()));
  absent_lives_ = sightings_.absent_lives(entries);
  return {};
}

// A process may end at any later time, so each heartbeat looks again.
Status Membership::Impl::prove_deaths() {
  for (size_t i = 0; i < absent_lives_.size();) {
    const membership::AbsentLife& life = absent_lives_[i];
    if (!runtime_.has_ended(life.process)) {
      ++i;
      continue;
    }
    FFDL_RETURN_IF_ERROR(report_death(store_, options_.job, life.member));
    base::log_info("job '{}': '{}' is dead: its process on this host has ended", options_.job,
                   life.member.id);
    absent_lives_.erase(absent_lives_.begin() + static_cast<std::ptrdiff_t>(i));
    must_look_ = true;
  }
  return {};
}

// Reads the states that members hold, once no state holder is present: the next lineage begins with
// the newest of them.
Status Membership::Impl::read_states() {
  std::vector<Entry> entries;
  if (sightings_.lacks_state_holders()) {
    FFDL_RETURN_IF_ERROR(tell_progress());  // its own state may have changed since the heartbeat
    FFDL_ASSIGN_OR_RETURN(entries, store_.list(keys_.all_progress()));
  }
  sightings_.update_states(entries, runtime_.now());  // absences are counted within one such time
  return {};
}

// Warns once for each member that is left out, until a world has connected it.
void Membership::Impl::warn_of_left_out(const membership::WorldDecision& decision) {
  for (const Member& member : decision.left_out) {
    if (contains(left_out_, member)) continue;
    base::log_warning("job '{}': {}", options_.job, decision.why_left_out);
    break;
  }
  std::erase_if(left_out_, [&](const Member& member) {
    const membership::Candidate* candidate = sightings_.facts().find(member);
    return candidate == nullptr || candidate->unreached.empty();
  });
  for (const Member& member : decision.left_out) {
    if (!contains(left_out_, member)) left_out_.push_back(member);
  }
}

// Writes only if the record has not changed since it was read. A former leader fails here.
Status Membership::Impl::write_world(const WorldRecord& next) {
  const auto& before = sightings_.record();
  FFDL_CHECK(next.generation >= (before ? before->generation : 0) &&
                 next.term >= (before ? before->term : 1) && next.leader == self_,
             "a leader writes in its own term, and never an older world");
  must_look_ = true;
  const auto put =
      store_.compare_and_put(keys_.world(), sightings_.record_revision(), encode(next));
  if (put.ok()) {
    note_record(next, *put);
    return {};
  }
  return put.status().code() == StatusCode::kConflict ? Status() : put.status();
}

// --- shared by both sides -----------------------------------------------------------------------

void Membership::Impl::note_record(const WorldRecord& record, Revision revision) {
  {
    MutexLock lock(mutex_);
    if (revision <= view_.revision) return;
    view_.revision = revision;
    view_.record = record;
  }
  wake();
}

void Membership::Impl::end(Status why, bool is_fence) const {
  {
    MutexLock lock(mutex_);
    if (over_.ok()) {
      over_ = std::move(why);
      is_fenced_ = is_fence;
    }
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

Status Membership::Impl::change_world(std::string_view doing, Time deadline, const Change& change,
                                      Status (Impl::*life)() const) {
  while (true) {
    FFDL_RETURN_IF_ERROR((this->*life)());
    auto entry = store_.get(keys_.world());
    Status outcome = entry.status();
    if (entry.ok()) {
      FFDL_ASSIGN_OR_RETURN(const WorldRecord record, read_record(*entry));
      FFDL_ASSIGN_OR_RETURN(const auto next, change(record));
      if (!next) return {};
      FFDL_CHECK(next->generation == record.generation && next->lineage == record.lineage &&
                     next->term == record.term && next->members == record.members,
                 "a member changes facts of a world, never its identity");
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
    event->reset();  // before the read: any later change sets the event again
    outcome = life_status();
    bool is_done = false;
    Duration rest{};  // until the life's status may change
    {
      MutexLock lock(mutex_);
      waiters_.insert(event);
      is_done = done(view_);
      rest = clock_.next() - runtime_.boottime();
    }
    if (!outcome.ok() || is_done) break;
    if (runtime_.now() >= deadline) {
      outcome = make_error(StatusCode::kTimeout,
                           "{} in job '{}': it did not happen by the deadline; wait longer, or "
                           "check the leader's log",
                           doing, options_.job);
      break;
    }
    event->wait_until(std::min(deadline, runtime_.now() + rest));
  }
  MutexLock lock(mutex_);
  waiters_.erase(event);
  return outcome;
}

// --- calls of the user ---------------------------------------------------------------------------

World Membership::Impl::world() const {
  MutexLock lock(mutex_);
  return world_seen_by(self_, options_.job, view_.record);
}

bool Membership::Impl::is_leader() const {
  MutexLock lock(mutex_);
  return view_.leads;
}

bool Membership::Impl::is_candidate(const Member& member) const {
  MutexLock lock(mutex_);
  return contains(view_.candidates, member);
}

Result<World> Membership::Impl::wait_world_after(uint64_t generation, Time deadline) {
  World world;
  FFDL_RETURN_IF_ERROR(wait_for("wait for a newer world", deadline, [&](const View& view) {
    world = world_seen_by(self_, options_.job, view.record);
    return view.record.generation > generation;
  }));
  return world;
}

Status Membership::Impl::activate(uint64_t generation, Time deadline, const StateLabel& base,
                                  std::string_view holder) {
  return change_world(
      "activate", deadline, [&](const WorldRecord& record) -> Result<std::optional<WorldRecord>> {
        if (record.active_generation == generation) return std::optional<WorldRecord>();
        if (record.generation != generation) {
          return make_error(StatusCode::kWorldChanged,
                            "activate generation {} of job '{}': generation {} is forming; "
                            "continue in that generation",
                            generation, options_.job, record.generation);
        }
        if (!contains(record.members, self_)) {
          return base::invalid_argument(
              "activate generation {} of job '{}': '{}' is not a member of it; wait for a world "
              "with it",
              generation, options_.job, self_.id);
        }
        WorldRecord next = record;
        next.phase = Phase::kActive;
        if (record.lineage != record.active_lineage) {
          next.lineage_generation = generation;
          next.continues = record.continued_lineage(base);
          next.lineage_base = base;
          next.lineage_holder = holder;
        }
        next.active_generation = generation;
        next.active_lineage = record.lineage;
        next.state_holders = record.members;
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
                    "wait until generation {} of job '{}' is active: a newer generation is "
                    "forming; continue in that generation",
                    generation, options_.job);
}

void Membership::Impl::report_progress(uint64_t generation, uint64_t step) {
  MutexLock lock(mutex_);
  progress_.generation = generation;
  progress_.step = step;
}

void Membership::Impl::report_state(const std::optional<StateLabel>& state) {
  MutexLock lock(mutex_);
  progress_.holds = state;
}

void Membership::Impl::report_failure(uint64_t generation, const std::vector<Member>& unreached) {
  MutexLock lock(mutex_);
  // A thread may still report an older world after another has reported a newer one.
  wishes_.failed_generation = std::max(wishes_.failed_generation, generation);
  membership::count_unreached(unreached, wishes_.unreached);
}

void Membership::Impl::report_connected(const World& world) {
  MutexLock lock(mutex_);
  std::erase_if(wishes_.unreached, [&](const membership::Unreached& one) {
    return std::ranges::any_of(world.members, [&](const Member& member) { return one.is(member); });
  });
}

std::optional<CheckpointPointer> Membership::Impl::checkpoint() const {
  MutexLock lock(mutex_);
  return view_.record.checkpoint;
}

std::optional<CheckpointPointer> Membership::Impl::restart_base() const {
  MutexLock lock(mutex_);
  return view_.record.restart_base;
}

Result<std::optional<StateLabel>> Membership::Impl::label_at_beginning(
    const World& world, const std::optional<StateLabel>& state) const {
  MutexLock lock(mutex_);
  if (view_.record.generation != world.generation) {
    return make_error(StatusCode::kWorldChanged,
                      "begin lineage {} of job '{}' in generation {}: generation {} is forming; "
                      "continue in that generation",
                      world.lineage, options_.job, world.generation, view_.record.generation);
  }
  if (!state) return std::optional<StateLabel>();
  return view_.record.label_at_beginning(*state);
}

uint64_t Membership::Impl::continued_lineage(const StateLabel& base) const {
  MutexLock lock(mutex_);
  return view_.record.continued_lineage(base);
}

Status Membership::Impl::publish_checkpoint(const CheckpointPointer& checkpoint, Time deadline) {
  return change_world(
      "publish a checkpoint in", deadline,
      [&](const WorldRecord& record) -> Result<std::optional<WorldRecord>> {
        if (record.lineage != checkpoint.lineage) {
          return make_error(StatusCode::kWorldChanged,
                            "publish checkpoint '{}': it is of lineage {}, and the job began again "
                            "in lineage {}; drop it",
                            checkpoint.manifest, checkpoint.lineage, record.lineage);
        }
        if (record.checkpoint == checkpoint) return std::optional<WorldRecord>();
        if (record.checkpoint && record.checkpoint->lineage == checkpoint.lineage &&
            !is_before(*record.checkpoint, checkpoint)) {
          return make_error(
              StatusCode::kConflict,
              "publish checkpoint '{}': '{}' is published, which is not older; drop it",
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

Status Membership::Impl::end_by_leaving(Time deadline) {
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
  MutexLock lock(mutex_);
  must_tell_departure_ = true;
  return {};
}

}  // namespace ffdl
