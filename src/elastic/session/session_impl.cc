#include "elastic/session/session_impl.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "elastic/checkpoint/state_shares.h"
#include "elastic/session/session_connect.h"
#include "elastic/state/hash.h"

namespace ffdl {

using base::make_error;
using elastic::as_bytes;
using elastic::bytes_of;
using elastic::ParticipantList;

namespace {

uint64_t model_of(std::span<const Buffer> state, std::span<const Buffer> gradients,
                  const elastic::GradientExchange& exchange, bool are_gradients_on_gpu,
                  const SessionOptions& options) {
  elastic::Hash hash;
  for (const auto buffers : {state, gradients}) {
    hash.add(buffers.size());
    for (const Buffer& buffer : buffers) {
      hash.add(buffer.count);
      hash.add(static_cast<uint64_t>(buffer.dtype));
    }
  }
  for (const auto bucket : exchange.buckets()) hash.add(bucket.size());
  for (const StepParticipant* one : options.participants) hash.add(one->record_bytes());
  hash.add(options.checkpoints.folder.empty() ? 0 : 1);
  hash.add(static_cast<uint64_t>(options.non_finite));
  if (are_gradients_on_gpu) hash.add(1);  // these are averaged in another way
  return hash.digest();
}

std::vector<Buffer> beginnings_of(std::span<const Buffer> gradients) {
  std::vector<Buffer> beginnings;
  for (const Buffer& buffer : gradients) {
    const uint64_t bytes = std::min(bytes_of(buffer), base::kHistorySampleBytes);
    beginnings.push_back(as_bytes(buffer.data, bytes));
  }
  return beginnings;
}

}  // namespace

Session::Impl::Impl(const SessionOptions& options, Trainable& trainable, Store& store,
                    Runtime& runtime, elastic::SessionMemory memory)
    : options_(options),
      trainable_(trainable),
      store_(store),
      runtime_(runtime),
      memory_(std::move(memory)),
      life_(options_, ParticipantList(options_.participants), runtime_),
      held_(trainable, *memory_.of_both, ParticipantList(options_.participants)),
      gradients_(trainable.gradients()),
      beginnings_(beginnings_of(gradients_)),
      finite_search_(memory_.of_gradients),
      exchange_(
          elastic::GradientExchange::create({.gradients = gradients_,
                                             .bucket_bytes = options_.bucket_bytes,
                                             .micro_batch_shares = options_.micro_batch_shares,
                                             .micro_batch_samples = options_.micro_batch_samples,
                                             .participants = ParticipantList(options_.participants),
                                             .gpu = memory_.of_gradients},
                                            seams())) {}

Session::Impl::~Impl() {
  if (change_) change_->abort();
  if (departure_) departure_->stop();
  if (change_) change_->stop();
  if (checkpoints_) checkpoints_->stop();
  exchange_.reset();
  checkpoints_.reset();
  life_.end_membership();  // before the communicators of its worlds
}

elastic::GradientExchange::Seams Session::Impl::seams() {
  return {runtime_, [this] { return life_.status(); }, [this] { return operation_deadline(); },
          [this]() -> Result<std::shared_ptr<Communicator>> {
            change_->wait_for_giving();
            FFDL_RETURN_IF_ERROR(life_.membership().life_status());
            life_.membership().report_state(held_.state());
            life_.membership().report_progress(world().generation, step() + 1);
            return change_->communicator();
          }};
}

Status Session::Impl::open() {
  FFDL_ASSIGN_OR_RETURN(Member member, elastic::named_member(options_, store_));
  FFDL_RETURN_IF_ERROR(life_.join(store_, std::move(member)));
  start_checkpoints();
  departure_ =
      std::make_unique<elastic::Departure>(options_, life_, held_, checkpoints_.get(), runtime_);
  const bool are_gradients_on_gpu = static_cast<bool>(memory_.of_gradients);
  change_ = std::make_unique<elastic::WorldChange>(
      elastic::WorldChange::Parts{options_, runtime_, store_, life_, held_, *exchange_,
                                  checkpoints_.get(), *departure_},
      elastic::WorldChange::Settings{
          elastic::make_factory(options_, memory_.device, store_),
          model_of(held_.buffers(), gradients_, *exchange_, are_gradients_on_gpu, options_),
          are_gradients_on_gpu});
  if (!change_->has_begun()) return end_life(base::no_thread("ffdl-connect"));
  if (checkpoints_ && !checkpoints_->has_begun()) {
    return end_life(base::no_thread("ffdl-checkpoint"));
  }
  const auto entry = change_->recover(Old::kKeep);
  if (!entry.ok()) {
    Status why = entry.status();
    if (why.code() == StatusCode::kTimeout) {
      why = std::move(why).with_context(fmt::format(
          "open a session as '{}': no world of job '{}' with {} members or more worked for {} s; "
          "start the others, and read the log for what failed",
          self().id, options_.membership.job, options_.membership.min_workers,
          std::chrono::duration<double>(options_.recovery_timeout).count()));
    }
    return end_life(std::move(why));
  }
  if (*entry == Entry::kFinished) return leave_finished();
  StepResult result = *entry == Entry::kLeft ? StepResult::kLeft : StepResult::kContinue;
  // It joined members that compute a step: they must not wait until it has gradients too.
  is_newcomer_ = *entry == Entry::kHealed && !world().begins_anew();
  while (is_newcomer_) {
    FFDL_ASSIGN_OR_RETURN(result, end_step(0));
    const bool is_due = result == StepResult::kRetryStep || result == StepResult::kHealed;
    is_newcomer_ = is_due && !is_finished();
  }
  if (result != StepResult::kLeft) return {};
  return make_error(StatusCode::kCancelled,
                    "open a session as '{}': another member took over before this one was in a "
                    "world; end",
                    self().id);
}

void Session::Impl::start_checkpoints() {
  if (options_.checkpoints.folder.empty()) return;
  elastic::Checkpointer::Job job;
  job.name = options_.membership.job;
  // The task of the checkpoints may outlast a life of this member.
  job.is_here = [this](const Member& member) {
    return life_.share_membership()->is_candidate(member);
  };
  job.world = [this] { return life_.share_membership()->world(); };
  job.newest = [this] { return life_.share_membership()->checkpoint(); };
  job.publish = [this](const CheckpointPointer& checkpoint, Time deadline) {
    return life_.share_membership()->publish_checkpoint(checkpoint, deadline);
  };
  auto tensors = elastic::describe_tensors(held_.buffers(), options_.checkpoints.names);
  checkpoints_ = std::make_unique<elastic::Checkpointer>(
      options_.checkpoints, std::move(tensors).value(), runtime_, *memory_.of_both, std::move(job));
}

void Session::Impl::request_checkpoint() {
  if (checkpoints_) checkpoints_->request();
}

Status Session::Impl::checkpoint_status() const {
  return checkpoints_ ? checkpoints_->stats().last : Status();
}

SessionStats Session::Impl::stats() const {
  SessionStats stats = stats_;
  stats.early_buckets = exchange_->early_buckets();
  const elastic::WorldChange::Stats& changes = change_->stats();
  stats.worlds = changes.worlds;
  stats.healed = changes.healed;
  stats.bytes_received = changes.bytes_received;
  stats.bytes_sent = changes.bytes_sent;
  if (!checkpoints_) return stats;
  const auto checkpoints = checkpoints_->stats();
  stats.checkpoints = checkpoints.published;
  stats.dropped_checkpoints = checkpoints.dropped;
  return stats;
}

// --- between steps -------------------------------------------------------------------------------

Status Session::Impl::suspend() {
  if (is_after_the_end()) return {};
  FFDL_RETURN_IF_ERROR(Status(life_.over()));
  FFDL_RETURN_IF_ERROR(check_resumed("suspend"));
  if (exchange_->has_begun()) {
    return base::invalid_argument("suspend: a step has begun; end it first");
  }
  change_->wait_for_giving();
  is_suspended_ = true;
  return heard_of(change_->communicator()->suspend(operation_deadline()));
}

Status Session::Impl::resume() {
  if (is_after_the_end()) return {};
  FFDL_RETURN_IF_ERROR(Status(life_.over()));
  if (!is_suspended_) {
    return base::invalid_argument("resume: the session is not suspended; call suspend() first");
  }
  is_suspended_ = false;
  return heard_of(change_->communicator()->resume(operation_deadline()));
}

Status Session::Impl::check_resumed(std::string_view doing) const {
  if (!is_suspended_) return {};
  return base::invalid_argument("{}: the session is suspended; call resume() at all members first",
                                doing);
}

// Ends the life after a final failure. A failed world is found by the next step, too: its first
// operation fails.
Status Session::Impl::heard_of(Status status) {
  return status.ok() || !life_.is_final(status) ? Status() : end_life(std::move(status));
}

// --- a step --------------------------------------------------------------------------------------

Status Session::Impl::add_micro_batch(uint64_t samples) {
  if (is_after_the_end()) return {};
  FFDL_RETURN_IF_ERROR(Status(life_.over()));
  FFDL_RETURN_IF_ERROR(check_resumed("add a micro-batch"));
  return exchange_->add(samples);
}

// Begins operations of a step early. Their list and order do not depend on this call.
Status Session::Impl::begin_average(size_t end, uint64_t samples) {
  if (is_after_the_end()) return {};
  FFDL_RETURN_IF_ERROR(Status(life_.over()));
  FFDL_RETURN_IF_ERROR(check_resumed("begin to average"));
  FFDL_RETURN_IF_ERROR(exchange_->note(end, samples));
  if (change_->is_giving()) return {};
  exchange_->run_early([&]() -> elastic::GradientExchange::FirstOperation {
    change_->wait_for_giving();
    return {change_->communicator(), describe(samples, elastic::StepKind::kNext)};
  });
  return {};
}

Result<StepResult> Session::Impl::end_step() {
  // A session that is over reports that below.
  if (const auto known = held_.participants().step_samples();
      known || is_finished() || !life_.over().ok()) {
    return end_step(known.value_or(0));
  }
  return base::invalid_argument(
      "end a step: end_step() was called without samples, and no ledger is among the participants; "
      "give end_step() the number of samples in this member's gradients");
}

Result<StepResult> Session::Impl::end_step(uint64_t samples) {
  if (is_after_the_end()) return StepResult::kLeft;
  FFDL_RETURN_IF_ERROR(Status(life_.over()));
  FFDL_RETURN_IF_ERROR(check_resumed("end a step"));
  FFDL_RETURN_IF_ERROR(exchange_->check_samples(samples));
  Status combined = exchange_->combine(samples);
  if (!combined.ok()) return end_life(std::move(combined));
  bool has_changed = false;
  while (true) {
    const Attempt attempt = try_step(samples);
    if (attempt.is_over) {
      const Status ended = end_training_or_life();
      if (ended.ok() || ended.code() == StatusCode::kWorldChanged) return StepResult::kHealed;
      return ended;
    }
    if (attempt.status.ok()) break;
    if (life_.is_final(attempt.status)) return end_life(attempt.status);
    ++stats_.retried_steps;
    const auto entry = change_->recover(Old::kAbort);
    if (!entry.ok()) return end_life(entry.status());
    if (*entry == Entry::kLeft) return StepResult::kLeft;
    if (*entry == Entry::kFinished) FFDL_RETURN_IF_ERROR(leave_finished());
    if (*entry != Entry::kSame) return StepResult::kHealed;
    if (!attempt.is_intact || !held_.participants().is_contribution_due())
      return StepResult::kRetryStep;
    has_changed = true;
  }
  const bool is_free = life_.membership().may_leave();  // no member stays in the job
  if (is_free) {
    change_->abort();  // a member that was absent for a moment must not wait for a step of this one
    const auto has_left = departure_->leave(world().generation);
    if (!has_left.ok() && !life_.may_come_back()) return end_life(has_left.status());
    if (has_left.ok() && *has_left) return StepResult::kLeft;
  }
  if (checkpoints_) checkpoints_->take(moment());
  const auto next = exchange_->messages().agreed_next();
  if (next && *next > world().generation) return begin(change_->change_over(*next));
  if (is_free) return begin(change_->recover(Old::kAbort));
  return has_changed ? StepResult::kWorldChanged : StepResult::kContinue;
}

Session::Impl::Attempt Session::Impl::try_step(uint64_t samples) {
  Attempt attempt;
  attempt.status = exchange_->take_failure();
  if (attempt.status.ok()) attempt.status = exchange_->begin_step();
  if (!attempt.status.ok()) change_->abort();  // no member ends a bucket of an ended life
  pause_exchange();
  using Kind = elastic::StepKind;
  const Kind kind = is_newcomer_ ? Kind::kNewcomer : Kind::kNext;
  if (attempt.status.ok()) attempt.status = exchange_messages(samples, kind);
  if (attempt.status.ok()) attempt.status = change_->become_active();
  if (attempt.status.ok()) {
    tell_stable();
    attempt.is_over = exchange_->messages().is_over();
    if (!attempt.is_over) attempt.status = exchange_->average(*change_->communicator());
  }
  attempt.is_intact = exchange_->is_intact();
  exchange_->end_attempt();
  if (attempt.is_over) return attempt;
  if (attempt.status.ok()) attempt.status = apply();
  if (attempt.status.ok()) attempt.status = life_.look();
  return attempt;
}

// Waits only for the task's present operation, with the checks of the user's thread.
void Session::Impl::pause_exchange() {
  while (!exchange_->pause(life_.next_look())) {
    if (!life_.look().ok()) change_->abort();
  }
}

std::span<std::byte> Session::Impl::describe(uint64_t samples, elastic::StepKind kind) {
  elastic::CheckpointWord word;
  if (checkpoints_) {
    const bool is_last = kind == elastic::StepKind::kNone;
    word = is_last ? checkpoints_->last_word(step(), world().generation)
                   : checkpoints_->word(step() + 1);
  }
  return exchange_->describe(
      {step() + 1, samples, change_->ready(), word, kind, world().generation});
}

// Exchanges the messages of a step. Each contributor has applied all steps up to step(), and is in
// step with this world.
Status Session::Impl::exchange_messages(uint64_t samples, elastic::StepKind kind) {
  if (!exchange_->has_gathered()) {
    FFDL_RETURN_IF_ERROR(
        exchange_->gather(*change_->communicator(), describe(samples, kind), samples));
  }
  FFDL_RETURN_IF_ERROR(check_headers());
  if (checkpoints_) checkpoints_->hear(world(), exchange_->messages().checkpoint_words());
  return life_.membership().life_status();
}

void Session::Impl::tell_stable() {
  if (!held_.note_stable()) return;
  FFDL_CHECK(change_->is_active() || life_.membership().completion(),
             "a step is stable where its world counts");
  held_.participants().stable(step());
  if (checkpoints_) checkpoints_->stable(step());
}

Status Session::Impl::apply() {
  const elastic::StepMessages& messages = exchange_->messages();
  FFDL_CHECK(change_->is_active() && held_.label().holds,
             "a step is applied to a state that counts, in an active world");
  FFDL_CHECK(messages.ranks() == world().size(), "each member of the world has given its records");
  const bool has_samples = messages.samples() > 0;
  bool is_skipped = false;
  if (has_samples) {
    FFDL_ASSIGN_OR_RETURN(is_skipped, must_skip());
  }
  elastic::Hash hash;
  hash.add(held_.label().history);
  hash.add(messages.all().data(), messages.all().size());
  if (is_skipped) ++stats_.skipped_steps;
  if (has_samples && !is_skipped) {
    FFDL_RETURN_IF_ERROR(memory_.of_both->visit(beginnings_, elastic::Access::kRead,
                                                [&](const Buffer& piece) -> Status {
                                                  hash.add(piece.data, piece.count);
                                                  return {};
                                                }));
    FFDL_RETURN_IF_ERROR(held_.participants().averaged());
    trainable_.apply();
  }
  held_.advance(hash.digest());
  ++stats_.steps;
  messages.apply(step());
  return {};
}

// Begins the world that follows this one after a whole step.
Result<StepResult> Session::Impl::begin(Result<Entry> entry) {
  if (!entry.ok()) return end_life(entry.status());
  if (*entry == Entry::kLeft) return StepResult::kLeft;
  if (*entry == Entry::kFinished) FFDL_RETURN_IF_ERROR(leave_finished());
  return *entry == Entry::kSame ? StepResult::kWorldChanged : StepResult::kHealed;
}

elastic::Checkpointer::Moment Session::Impl::moment() const {
  return {&world(), step(), held_.label().history, held_.buffers(),
          [this] { return held_.participants().save(); }};
}

// --- checks of a step before it counts -----------------------------------------------------------

// Checks that each member is at this step of this world. Otherwise sums of two steps would be
// mixed.
Status Session::Impl::check_headers() const {
  std::string others;
  for (int rank = 0; rank < exchange_->messages().ranks(); ++rank) {
    const elastic::StepHeader header = exchange_->messages().header(rank);
    if (header.step == step() + 1 && header.generation == world().generation &&
        header.bytes == exchange_->messages().bytes()) {
      continue;
    }
    others +=
        fmt::format("{}rank {} ('{}') is at step {} of generation {} with {} bytes",
                    others.empty() ? "" : ", ", rank, world().members[static_cast<size_t>(rank)].id,
                    header.step, header.generation, header.bytes);
  }
  if (others.empty()) return {};
  return make_error(StatusCode::kInternal,
                    "end step {} of job '{}' in generation {} with {} bytes, as rank {}: {}; "
                    "report it with the logs of these members",
                    step() + 1, options_.membership.job, world().generation,
                    exchange_->messages().bytes(), world().rank, others);
}

// Reports whether the step is skipped. The mean has the same bits at all members, so all decide
// alike.
Result<bool> Session::Impl::must_skip() {
  if (options_.non_finite == NonFinite::kAccept) return false;
  FFDL_ASSIGN_OR_RETURN(const auto found, finite_search_.find(gradients_, *memory_.of_both));
  if (!found) return false;
  if (options_.non_finite == NonFinite::kSkip) return true;
  return base::invalid_argument(
      "end step {} of job '{}': {} is {} in the mean over {} samples; lower the learning rate or "
      "check these samples (non_finite=skip drops and counts such gradients)",
      step() + 1, options_.membership.job, trainable_.name_gradient(found->buffer, found->element),
      found->value, exchange_->messages().samples());
}

// --- the end -------------------------------------------------------------------------------------

Status Session::Impl::finish() {
  if (is_finished()) {
    has_finished_ = true;
    return {};
  }
  FFDL_RETURN_IF_ERROR(Status(life_.over()));
  FFDL_RETURN_IF_ERROR(check_resumed("finish"));
  if (exchange_->has_noted()) {
    return base::invalid_argument("finish: the gradients of a step are being averaged; end it");
  }
  Status ended = end_training_or_life();
  has_finished_ = is_finished();
  return ended;
}

Status Session::Impl::end_training_or_life() {
  Status ended = end_training();
  if (ended.ok() || is_going_back(ended)) return ended;
  return end_life(std::move(ended));
}

// Reports whether all members train on from a checkpoint, so that the session is not over.
bool Session::Impl::is_going_back(const Status& status) const {
  return status.code() == StatusCode::kWorldChanged &&
         (life_status().ok() || life_.may_come_back());
}

Status Session::Impl::end_training() {
  const elastic::HeldState::Label before = held_.label();
  const elastic::WaitLimit limit = departure_->begin_wait();
  while (true) {
    Status settled = settle();
    if (!settled.ok() && life_.is_final(settled)) return settled;
    Old old = settled.ok() ? Old::kKeep : Old::kAbort;
    if (settled.ok() && exchange_->messages().are_all_done()) {
      FFDL_ASSIGN_OR_RETURN(const auto last, take_last_checkpoint(limit));
      if (last == LastCheckpoint::kOnceMore) continue;
      if (last == LastCheckpoint::kSettled) {
        FFDL_CHECK(change_->is_active(), "a job ends where all have its last step");
        settled = departure_->complete();
        if (settled.ok()) return leave_finished();
        if (settled.code() != StatusCode::kWorldChanged && !life_.may_come_back()) return settled;
        old = Old::kAbort;
      }
    } else if (settled.ok()) {
      if (exchange_->messages().is_over())
        continue;  // newcomers know it now, and report the same next
      // Other members go on. They have the state, and must not wait for a step of this member.
      change_->abort();
      if (checkpoints_) {
        FFDL_RETURN_IF_ERROR(
            departure_->wait_for_checkpoint(limit, [this] { return may_pass_checkpoint(); }));
      }
      const auto has_left = departure_->leave_or_be_needed(world().generation);
      if (!has_left.ok() && !life_.may_come_back()) return has_left.status();
      if (has_left.ok() && *has_left) return {};
    }
    FFDL_ASSIGN_OR_RETURN(const Entry entry, change_->recover(old));
    if (entry == Entry::kFinished) return leave_finished();
    if (entry == Entry::kLeft) return {};
    const elastic::HeldState::Label& now = held_.label();
    if (now.lineage != before.lineage &&
        (now.step != before.step || now.history != before.history)) {
      return make_error(StatusCode::kWorldChanged,
                        "finish job '{}': members died, and the others continue from step {}; "
                        "train on from there, and call finish() again",
                        options_.membership.job, step());
    }
  }
}

// Runs an exchange after the last step. If it succeeds, all members of this world have that step.
Status Session::Impl::settle() {
  Status settled = exchange_->begin_step();
  if (settled.ok()) settled = exchange_messages(0, elastic::StepKind::kNone);
  if (settled.ok()) settled = change_->become_active();
  exchange_->end_attempt();
  if (settled.ok()) tell_stable();
  return settled;
}

// Takes the checkpoint on which all members agreed by their words. They exchange words until none
// of them writes a checkpoint. Only so do all learn that one gave its share up.
Result<Session::Impl::LastCheckpoint> Session::Impl::take_last_checkpoint(
    const elastic::WaitLimit& limit) {
  if (!checkpoints_) return LastCheckpoint::kSettled;
  if (limit.is_over()) {
    base::log_warning(
        "job '{}': the checkpoint of its last step is not written after {} s; the "
        "job ends without it",
        options_.membership.job, std::chrono::duration<double>(options_.recovery_timeout).count());
    return LastCheckpoint::kSettled;
  }
  const auto words = exchange_->messages().checkpoint_words();
  const bool is_settled = std::ranges::all_of(words, [](const elastic::CheckpointWord& word) {
    return word.wants == 0 && word.pending == 0;
  });
  if (is_settled) return LastCheckpoint::kSettled;
  if (elastic::should_take(words)) checkpoints_->take_last(moment());
  const Time soon = runtime_.now() + base::kStandingInterval;
  FFDL_RETURN_IF_ERROR(departure_->wait_for_checkpoint(
      limit, [&] { return may_pass_checkpoint() || runtime_.now() >= soon; }));
  const bool is_over = !checkpoints_->is_idle() && change_->is_next_ready();
  return is_over ? LastCheckpoint::kInNextWorld : LastCheckpoint::kOnceMore;
}

// Reports whether the wait for a checkpoint ends. An author may wait in the next world: it gave its
// share up in a world without this member.
bool Session::Impl::may_pass_checkpoint() const {
  return checkpoints_->is_idle() || change_->is_next_ready();
}

// Ends this member after the job. Sends the last state to members that need it, and leaves. A
// failure to leave has no effect any more.
Status Session::Impl::leave_finished() {
  if (held_.note_last()) {
    tell_stable();  // another member may have written the end before this one had settled
    base::log_info("job '{}': '{}' ends with step {}, the last one", options_.membership.job,
                   self().id, step());
  }
  Status ended;
  bool has_left = false;
  while (ended.ok() && !has_left) {
    change_->wait_for_giving();
    change_->abort();
    const auto left = departure_->leave_or_be_needed(world().generation);
    ended = left.status();
    has_left = left.ok() && *left;
    if (!ended.ok() || has_left || !held_.label().holds)
      break;  // from a checkpoint, which all can load
    const auto entry = change_->recover(Old::kKeep);
    ended = entry.status();
    has_left = entry.ok() && *entry == Entry::kLeft;
    if (entry.ok() && *entry == Entry::kFinished) break;
  }
  if (!has_left) {
    const Status why = end_life(make_error(StatusCode::kCancelled, "member '{}': job '{}' is done",
                                           self().id, options_.membership.job));
    if (!ended.ok()) base::log_info("{}; {}", why.message(), ended.message());
  }
  return life_.interrupted();
}

Status Session::Impl::end_life(Status why) {
  if (life_.has_ended()) return why;  // the life has ended, and something failed since
  why = life_.end(std::move(why));
  change_->abort();
  change_->wait_for_giving();
  // There is nothing to leave. The tasks end with their present call to the store, which this
  // thread does not wait for.
  if (!life_.membership().life_status().ok()) return why;
  departure_->stop();
  change_->stop();
  if (checkpoints_) checkpoints_->stop();
  life_.leave();
  return why;
}

}  // namespace ffdl
