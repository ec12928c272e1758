#include "elastic/session_impl.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "elastic/hash.h"
#include "elastic/state_copy.h"
#include "elastic/weigh.h"

namespace ffdl {

using base::make_error;
using base::MutexLock;
using elastic::as_bytes;
using elastic::bytes_of;
using elastic::Connected;
using elastic::Report;
using elastic::RescalePlan;

namespace {

uint64_t model_of(std::span<const Buffer> state, std::span<const Buffer> gradients,
                  const base::Gpu& of_gradients, const SessionOptions& options) {
  elastic::Hash hash;
  for (const auto buffers : {state, gradients}) {
    hash.add(buffers.size());
    for (const Buffer& buffer : buffers) {
      hash.add(buffer.count);
      hash.add(static_cast<uint64_t>(buffer.dtype));
    }
  }
  for (const auto bucket : elastic::cut_buckets(gradients, options.bucket_bytes)) {
    hash.add(bucket.size());
  }
  for (const StepParticipant* one : options.participants) hash.add(one->record_bytes());
  hash.add(options.checkpoints.folder.empty() ? 0 : 1);
  if (of_gradients) hash.add(1);  // they are averaged in another way
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

// connect_communicator() by the store of the session. `look` says nothing once it has connected;
// what the options say is asked all the time.
// A task connects, so that the device is not that of the thread.
CommunicatorFactory factory_of(const SessionOptions& options, int device, Store& store) {
  if (options.connect) return options.connect;
  CommunicatorOptions communicator = options.communicator;
  communicator.device = device;
  return [communicator, &store](const World& world, Time deadline,
                                const std::function<Status()>& look) {
    CommunicatorOptions mine = communicator;
    mine.look = [look, asked = communicator.look]() -> Status {
      FFDL_RETURN_IF_ERROR(look());
      return asked ? asked() : Status();
    };
    return connect_communicator(world, store, deadline, mine);
  };
}

}  // namespace

Session::Impl::Impl(const SessionOptions& options, Trainable& trainable, Store& store,
                    Runtime& runtime, Memory memory)
    : options_(options),
      trainable_(trainable),
      store_(store),
      runtime_(runtime),
      memory_(std::move(memory)),
      state_(trainable.state()),
      gradients_(trainable.gradients()),
      beginnings_(beginnings_of(gradients_)),
      buckets_(elastic::cut_buckets(gradients_, options_.bucket_bytes)),
      micro_batches_(
          buckets_, options_.micro_batch_shares, options_.micro_batch_samples,
          [this] { return standing(); }, memory_.of_gradients),
      parts_(gradients_, memory_.of_gradients),
      model_(model_of(state_, gradients_, memory_.of_gradients, options_)),
      beginning_(save_beside()),
      messages_(options_.participants),
      given_(runtime.make_event()),
      averaging_(buckets_, messages_,
                 {runtime, [this] { return standing(); }, [this] { return operation_deadline(); },
                  memory_.of_gradients}) {}

Session::Impl::~Impl() {
  abort_communicator();
  giving_.reset();
  successor_.reset();
  if (checkpoints_) checkpoints_->stop();
}

Status Session::Impl::open() {
  FFDL_ASSIGN_OR_RETURN(membership_,
                        Membership::join(store_, runtime_, options_.self, options_.membership));
  self_ = membership_->self();
  start_checkpoints();
  successor_ = std::make_unique<elastic::Successor>(
      *membership_, runtime_,
      elastic::Successor::Options{factory_of(options_, memory_.device, store_),
                                  options_.recovery_timeout},
      [this] { abort_communicator(); });
  const auto entry = recover(Old::kKeep);
  if (!entry.ok()) return end_life(entry.status());
  StepResult result = *entry == Entry::kLeft ? StepResult::kLeft : StepResult::kContinue;
  // It came to those who compute a step: they shall not wait until it has gradients, too.
  bool is_due = *entry == Entry::kHealed && !world_.begins_anew();
  while (is_due) {
    FFDL_ASSIGN_OR_RETURN(result, end_step(0));
    is_due = result == StepResult::kRetryStep || result == StepResult::kHealed;
  }
  if (result != StepResult::kLeft) return {};
  return make_error(StatusCode::kCancelled,
                    "open a session as '{}': another member took over before this one was in a "
                    "world; end",
                    self_.id);
}

void Session::Impl::ask_to_leave() {
  MutexLock lock(mutex_);
  if (membership_) membership_->ask_to_leave();
}

Status Session::Impl::standing() const { return over_.ok() ? membership_->standing() : over_; }

// --- a step --------------------------------------------------------------------------------------

Status Session::Impl::add_micro_batch(uint64_t samples) {
  FFDL_RETURN_IF_ERROR(Status(over_));
  FFDL_RETURN_IF_ERROR(check_resumed("add a micro-batch"));
  if (averaging_.noted_samples()) {
    return base::invalid_argument(
        "add a micro-batch: begin_average() was called in this step, and the others may have what "
        "it named; give each step one of the two");
  }
  if (!micro_batches_.is_on()) return parts_.add(samples);
  if (micro_batches_failed_.ok()) micro_batches_failed_ = begin_step();
  return micro_batches_failed_.ok() ? micro_batches_.add(samples) : Status();
}

// The gradients are the mean over this member's share from here on, as if it had come at once.
Status Session::Impl::bring_parts_together(uint64_t samples) {
  const uint64_t added = parts_.samples();
  if (added == 0) return {};
  if (samples != 0 && samples != added) {
    return base::invalid_argument(
        "end a step of {} samples: micro-batches of {} were added; give end_step() their sum",
        samples, added);
  }
  if (samples > 0) {
    const Status made = parts_.finish();
    return made.ok() ? made : end_life(made);
  }
  parts_.drop();  // the samples are another's now
  return {};
}

Result<StepResult> Session::Impl::end_step(uint64_t samples) {
  FFDL_RETURN_IF_ERROR(Status(over_));
  FFDL_RETURN_IF_ERROR(check_resumed("end a step"));
  FFDL_RETURN_IF_ERROR(check_noted(samples));
  FFDL_RETURN_IF_ERROR(bring_parts_together(samples));
  bool has_changed = false;
  while (true) {
    const Attempt attempt = try_step(samples);
    if (attempt.status.ok()) break;
    if (is_final(attempt.status)) return end_life(attempt.status);
    ++stats_.retried_steps;
    const auto entry = recover(Old::kAbort);
    if (!entry.ok()) return end_life(entry.status());
    if (*entry == Entry::kLeft) return StepResult::kLeft;
    if (*entry == Entry::kHealed) return StepResult::kHealed;
    if (!attempt.is_intact || !is_contribution_due()) return StepResult::kRetryStep;
    has_changed = true;
  }
  if (membership_->may_leave()) {  // nobody stays in the job
    const auto has_left = leave();
    if (!has_left.ok()) return end_life(has_left.status());
    if (*has_left) return StepResult::kLeft;
  }
  take_checkpoint();
  const auto next = messages_.agreed_next();
  if (next && *next > world_.generation) return change_over(*next);
  return has_changed ? StepResult::kWorldChanged : StepResult::kContinue;
}

bool Session::Impl::is_contribution_due() const {
  return std::all_of(options_.participants.begin(), options_.participants.end(),
                     [](const StepParticipant* one) { return one->is_contribution_due(); });
}

// This member is at its next step, and the first operation of it may come.
Status Session::Impl::begin_step() {
  wait_for_giving();
  FFDL_RETURN_IF_ERROR(membership_->standing());
  membership_->report_progress(world_.generation, step_ + 1);
  if (!micro_batches_.is_on()) return {};
  return micro_batches_.begin_step(*communicator(), operation_deadline());
}

Session::Impl::Attempt Session::Impl::try_step(uint64_t samples) {
  Attempt attempt;
  attempt.status = std::exchange(micro_batches_failed_, Status());
  if (attempt.status.ok()) attempt.status = begin_step();
  if (!attempt.status.ok()) abort_communicator();  // of a life that is over nobody ends a bucket
  pause_averaging();
  if (attempt.status.ok()) attempt.status = exchange_messages(samples, Step::kNext);
  if (attempt.status.ok()) attempt.status = become_active();
  if (attempt.status.ok()) {
    tell_stable();
    attempt.status = average();
  }
  attempt.is_intact = !micro_batches_.is_on() && averaging_.is_intact();
  averaging_.drop();
  if (attempt.status.ok()) attempt.status = apply();
  if (attempt.status.ok()) attempt.status = look();
  return attempt;
}

std::span<std::byte> Session::Impl::describe(uint64_t samples, Step step) {
  return messages_.describe(
      {step_ + 1, samples, successor_->ready(),
       checkpoints_ ? checkpoints_->word(step_ + 1) : elastic::CheckpointWord{},
       step == Step::kNone ? uint64_t{1} : 0});
}

// Whoever contributes here has applied all steps up to `step_`, and is in step with this world.
Status Session::Impl::exchange_messages(uint64_t samples, Step step) {
  if (!averaging_.has_gathered()) {
    FFDL_RETURN_IF_ERROR(averaging_.gather(*communicator(), describe(samples, step), samples));
  }
  if (checkpoints_) checkpoints_->hear(world_, messages_.checkpoint_words());
  return membership_->standing();
}

// No result counts before the world does. Rank 0 sees to it; the others do if it does not.
Status Session::Impl::become_active() {
  if (is_active_) return {};
  bool is_my_turn = world_.rank == 0;
  while (true) {
    if (is_my_turn) {
      const Status made = membership_->activate(world_.generation, operation_deadline());
      if (!made.ok() && made.code() != StatusCode::kTimeout) return made;
    }
    const Status seen =
        membership_->wait_active(world_.generation, runtime_.now() + base::kStandingInterval);
    FFDL_RETURN_IF_ERROR(look());
    if (seen.ok()) break;
    if (seen.code() != StatusCode::kTimeout) return seen;
    is_my_turn = true;
  }
  is_active_ = true;
  previous_.reset();
  return {};
}

void Session::Impl::tell_stable() {
  if (step_ <= told_stable_) return;
  told_stable_ = step_;
  for (StepParticipant* participant : options_.participants) participant->stable(step_);
  if (checkpoints_) checkpoints_->stable(step_);
}

Status Session::Impl::average() {
  if (!micro_batches_.is_on()) return averaging_.average(*communicator());
  const uint64_t sum = messages_.samples();
  if (sum > 0) FFDL_RETURN_IF_ERROR(micro_batches_.finish(sum, operation_deadline()));
  if (sum == 0) micro_batches_.drop();
  return membership_->standing();
}

Status Session::Impl::apply() {
  elastic::Hash hash;
  hash.add(history_);
  hash.add(messages_.all().data(), messages_.all().size());
  if (messages_.samples() > 0) {
    FFDL_RETURN_IF_ERROR(memory_.of_both->visit(beginnings_, elastic::Access::kRead,
                                                [&](const Buffer& piece) -> Status {
                                                  hash.add(piece.data, piece.count);
                                                  return {};
                                                }));
    for (StepParticipant* participant : options_.participants) {
      participant->averaged();
      FFDL_RETURN_IF_ERROR(participant->standing());
    }
    trainable_.apply();
  }
  is_pristine_ = false;  // of a step without samples there is what the participants keep
  history_ = hash.digest();
  ++step_;
  ++stats_.steps;
  messages_.apply(step_);
  return {};
}

// All members of this world are ready for that one, and change over after the same step.
Result<StepResult> Session::Impl::change_over(uint64_t generation) {
  auto next = successor_->take(generation);
  Result<Entry> entry = Entry::kSame;
  if (next) {
    entry = enter(*std::move(next));
    if (!entry.ok() && !is_final(entry.status())) entry = recover(Old::kAbort);
  } else {
    entry = recover(Old::kKeep);
  }
  if (!entry.ok()) return end_life(entry.status());
  if (*entry == Entry::kLeft) return StepResult::kLeft;
  return *entry == Entry::kHealed ? StepResult::kHealed : StepResult::kWorldChanged;
}

// --- a change of the world -----------------------------------------------------------------------

// Settles what was begun in the present world, and enters the next one that works.
Result<Session::Impl::Entry> Session::Impl::recover(Old old) {
  if (old == Old::kAbort) abort_communicator();
  const Time deadline = runtime_.now() + options_.recovery_timeout;
  // A death is seen by the store, and makes a world without being asked for.
  const Duration patience = 2 * options_.membership.lease;
  Time ask_at = runtime_.now() + patience;
  uint64_t failed = world_.generation;
  bool may_ask = old == Old::kAbort;
  while (true) {
    FFDL_RETURN_IF_ERROR(look());
    FFDL_RETURN_IF_ERROR(membership_->standing());
    if (membership_->may_leave()) {
      FFDL_ASSIGN_OR_RETURN(const bool has_left, leave());
      if (has_left) return Entry::kLeft;
    }
    // It stands still for want of a world, not behind others.
    membership_->report_progress(membership_->world().generation, 0);
    const Time now = runtime_.now();
    auto next =
        successor_->wait_after(failed, std::min<Time>(deadline, now + base::kStandingInterval));
    if (next.ok()) {
      failed = next->world.generation;
      auto entry = enter(*std::move(next));
      if (entry.ok() || is_final(entry.status())) return entry;
      base::log_warning("generation {} did not begin: {}", failed, entry.status().message());
      abort_communicator();
      ask_at = runtime_.now() + patience;
      may_ask = true;
      continue;
    }
    if (next.status().code() != StatusCode::kTimeout || now >= deadline) return next.status();
    if (now < ask_at || !may_ask) continue;
    membership_->report_failure(failed);
    ask_at = now + patience;
  }
}

Result<Session::Impl::Entry> Session::Impl::enter(Connected next) {
  wait_for_giving();
  micro_batches_.drop();
  FFDL_RETURN_IF_ERROR(memory_.of_both->follow());  // what follows looks at the state
  {
    MutexLock lock(mutex_);
    previous_ = std::exchange(communicator_, std::move(next.communicator));
  }
  FFDL_RETURN_IF_ERROR(check_reach());
  for (const auto& memory : options_.shared_memory) {
    FFDL_RETURN_IF_ERROR(communicator()->register_memory(memory));
  }
  world_ = std::move(next.world);
  is_active_ = false;
  successor_->set_present(world_);
  ++stats_.worlds;
  membership_->report_progress(world_.generation, step_);
  FFDL_RETURN_IF_ERROR(connect_gpus());
  if (world_.begins_anew()) FFDL_RETURN_IF_ERROR(begin_anew());
  FFDL_ASSIGN_OR_RETURN(const std::vector<Report> reports, gather_reports());
  FFDL_ASSIGN_OR_RETURN(const RescalePlan plan, elastic::plan_rescale(reports, world_));
  FFDL_RETURN_IF_ERROR(check_fit(plan));
  return take_part(plan);
}

// Where the communicator has left that until now. Whatever fails there fails in this world, not in
// the session: another world may do without who cannot. A loss makes that by itself.
Status Session::Impl::connect_gpus() {
  Status connected = communicator()->continue_from(previous_.get(), operation_deadline());
  if (connected.ok() || connected.code() == StatusCode::kPeerLost) return connected;
  membership_->report_failure(world_.generation);
  return make_error(StatusCode::kPeerLost, "its GPUs were not connected: {}", connected.message());
}

Result<std::vector<Report>> Session::Impl::gather_reports() {
  FFDL_RETURN_IF_ERROR(membership_->standing());
  const bool must_hash = options_.verify_state || world_.begins_anew();
  Report mine = {
      elastic::kReportFormat, model_, holds_ ? 1U : 0U, lineage_, generation_, step_, history_, 0};
  if (must_hash) {
    FFDL_ASSIGN_OR_RETURN(mine.hash, elastic::hash_of(*memory_.of_both, state_, save_beside()));
  }
  std::vector<Report> reports(world_.members.size());
  FFDL_RETURN_IF_ERROR(communicator()->all_gather(
      as_bytes(&mine, sizeof mine), as_bytes(reports.data(), reports.size() * sizeof(Report)),
      operation_deadline()));
  return reports;
}

Status Session::Impl::check_fit(const RescalePlan& plan) const {
  for (const int rank : plan.refused) {
    if (rank == world_.rank) {
      return base::invalid_argument(
          "join job '{}' as '{}': the others' state, gradients, buckets or participants have other "
          "shapes, or their gradients lie in another kind of memory; run the same program with the "
          "same model everywhere",
          options_.membership.job, options_.self.id);
    }
  }
  if (plan.refused.empty()) return {};
  return make_error(StatusCode::kPeerLost, "'{}' has a model of other shapes",
                    world_.members[static_cast<size_t>(plan.refused.front())].id);
}

Result<Session::Impl::Entry> Session::Impl::take_part(const RescalePlan& plan) {
  const int from = plan.from[static_cast<size_t>(world_.rank)];
  if (from == RescalePlan::kOwn) {
    give_state(plan);
  } else {
    FFDL_RETURN_IF_ERROR(take_over_state(from));
  }
  holds_ = true;
  lineage_ = world_.lineage;
  generation_ = world_.generation;
  step_ = plan.step;
  history_ = plan.history;
  for (StepParticipant* participant : options_.participants) participant->world_changed(world_);
  trainable_.on_world(world_);
  FFDL_RETURN_IF_ERROR(look());
  if (world_.rank == 0) {
    base::log_info("job '{}': generation {} has {} members, from step {}", options_.membership.job,
                   world_.generation, world_.size(), step_);
  }
  const bool is_same = from == RescalePlan::kOwn && !world_.begins_anew();
  return is_same ? Entry::kSame : Entry::kHealed;
}

// Beside a state that still counts it is received, and put in its place when it is whole: whoever
// gives it may die half way.
Status Session::Impl::take_over_state(int from) {
  const auto deadline = [this] { return operation_deadline(); };
  std::vector<std::byte> shadow;
  std::vector<Buffer> into = state_;
  if (holds_) {
    shadow.resize(bytes_of(state_));
    std::byte* place = shadow.data();
    for (Buffer& buffer : into) {
      buffer.data = place;
      place += bytes_of(buffer);
    }
  } else {
    is_pristine_ = false;
  }
  FFDL_ASSIGN_OR_RETURN(
      const auto beside,
      elastic::receive_state(*communicator(), from, *memory_.of_both, into, deadline));
  FFDL_RETURN_IF_ERROR(restore_beside(beside));
  if (holds_) {
    const std::byte* place = shadow.data();
    FFDL_RETURN_IF_ERROR(
        memory_.of_both->visit(state_, elastic::Access::kWrite, [&](const Buffer& piece) -> Status {
          std::memcpy(piece.data, place, bytes_of(piece));
          place += bytes_of(piece);
          return {};
        }));
  }
  is_pristine_ = false;
  ++stats_.healed;
  stats_.bytes_received += bytes_of(state_);
  return {};
}

// The state does not change before the next sum, and that waits for those who take it.
void Session::Impl::give_state(const RescalePlan& plan) {
  std::vector<int> to;
  for (size_t rank = 0; rank < plan.from.size(); ++rank) {
    if (plan.from[rank] == world_.rank) to.push_back(static_cast<int>(rank));
  }
  if (to.empty()) return;
  given_->reset();
  giving_ = runtime_.spawn(
      "ffdl-give", [this, to, beside = save_beside(), on = communicator()](const StopToken&) {
        const auto deadline = [this] { return operation_deadline(); };
        bytes_given_ = 0;
        for (const int rank : to) {
          const Status sent =
              elastic::send_state(*on, rank, *memory_.of_both, state_, beside, deadline);
          if (!sent.ok()) {
            on->abort(sent);  // the next operation of this member says so
            break;
          }
          bytes_given_ += bytes_of(state_);
        }
        given_->set();
      });
}

void Session::Impl::wait_for_giving() {
  if (!giving_) return;
  while (!given_->wait_until(next_look(kNoDeadline))) {
    if (!look().ok()) abort_communicator();
  }
  giving_.reset();
  stats_.bytes_sent += bytes_given_;
}

std::vector<std::byte> Session::Impl::save_beside() const {
  std::vector<std::byte> all;
  for (const StepParticipant* participant : options_.participants) {
    const std::vector<std::byte> one = participant->save();
    const uint64_t bytes = one.size();
    const auto* size = reinterpret_cast<const std::byte*>(&bytes);
    all.insert(all.end(), size, size + sizeof bytes);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

Status Session::Impl::restore_beside(std::span<const std::byte> bytes) {
  for (StepParticipant* participant : options_.participants) {
    uint64_t size = 0;
    if (bytes.size() >= sizeof size) {
      std::memcpy(&size, bytes.data(), sizeof size);
      bytes = bytes.subspan(sizeof size);
    }
    if (bytes.size() < size) {
      return make_error(StatusCode::kInternal, "restore the participants: too few bytes");
    }
    FFDL_RETURN_IF_ERROR(participant->restore(bytes.first(size)));
    bytes = bytes.subspan(size);
  }
  return {};
}

// --- small ---------------------------------------------------------------------------------------

bool Session::Impl::is_final(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kInternal ||
         status.code() == StatusCode::kUnimplemented || status.code() == StatusCode::kCorrupt ||
         !membership_->standing().ok() || !look().ok() ||
         std::ranges::any_of(options_.participants,
                             [](const StepParticipant* one) { return !one->standing().ok(); });
}

Status Session::Impl::look() {
  if (looked_.ok() && options_.communicator.look) looked_ = options_.communicator.look();
  return looked_;
}

Time Session::Impl::next_look(Time deadline) {
  if (!options_.communicator.look) return deadline;
  return std::min<Time>(deadline, runtime_.now() + base::kStandingInterval);
}

void Session::Impl::abort_communicator() {
  const auto present = communicator();
  if (present) present->abort(make_error(StatusCode::kCancelled, "the world changes"));
}

std::shared_ptr<Communicator> Session::Impl::communicator() {
  MutexLock lock(mutex_);
  return communicator_;
}

}  // namespace ffdl
