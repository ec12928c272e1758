#include "elastic/session/world_change.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "elastic/state/state_copy.h"

namespace ffdl::elastic {

using base::make_error;
using base::MutexLock;

using Entry = WorldChange::Entry;

WorldChange::WorldChange(const Parts& parts, Settings settings)
    : options_(parts.options),
      runtime_(parts.runtime),
      store_(parts.store),
      life_(parts.life),
      held_(parts.held),
      exchange_(parts.exchange),
      checkpoints_(parts.checkpoints),
      departure_(parts.departure),
      connect_(std::move(settings.connect)),
      model_(settings.model),
      needs_device_reach_(settings.needs_device_reach),
      activating_(runtime_),
      rejoining_(runtime_),
      given_(runtime_.make_event()) {
  start_connecting();
}

void WorldChange::start_connecting() {
  connector_ = std::make_unique<NextWorldConnector>(
      life_.membership(), runtime_,
      NextWorldConnector::Options{connect_, options_.recovery_timeout},
      [this](uint64_t generation, const Status& why) { end_worlds(generation, why); });
}

WorldChange::~WorldChange() { stop(); }

void WorldChange::stop() {
  give_up_rejoin();
  giving_.reset();
  activating_.join();
  rejoining_.join();
  connector_.reset();
}

std::shared_ptr<Communicator> WorldChange::communicator() {
  MutexLock lock(mutex_);
  return communicator_;
}

void WorldChange::abort() {
  const auto present = communicator();
  if (present) present->abort(make_error(StatusCode::kCancelled, "the world changes"));
}

// Aborts the communicator of an ended world. A task of `connector_` calls it.
void WorldChange::end_worlds(uint64_t generation, const Status& why) {
  const auto present = communicator();
  if (present && present->world().generation <= generation) present->abort(why);
}

// --- from one world to the next ------------------------------------------------------------------

Result<Entry> WorldChange::recover(Old old) {
  if (old == Old::kAbort) abort();
  // A member that ended with the job sends its state only to members within reach.
  WaitLimit limit(life_, held_.is_last() ? std::min(options_.recovery_timeout,
                                                    options_.membership.fence_after)
                                         : options_.recovery_timeout);
  // The store detects a death, and a world forms without a request.
  const Duration patience = 2 * options_.membership.lease;
  Time ask_at = runtime_.now() + patience;
  uint64_t failed = world_.generation;
  bool may_ask = old == Old::kAbort;
  while (true) {
    FFDL_RETURN_IF_ERROR(life_.look());
    const bool is_over = limit.is_over();
    Membership& membership = life_.membership();
    const Status living = membership.life_status();
    if (!living.ok()) {
      if (!life_.may_come_back()) return living;
      FFDL_RETURN_IF_ERROR(come_back(limit));
      continue;  // that life may be over, too
    }
    FFDL_ASSIGN_OR_RETURN(const bool is_at_end, find_end());
    if (is_at_end) return Entry::kFinished;
    if (membership.may_leave()) {
      const auto has_left = departure_.leave(world_.generation);
      if (!has_left.ok() && life_.may_come_back()) continue;
      FFDL_RETURN_IF_ERROR(Status(has_left.status()));
      if (*has_left) return Entry::kLeft;
      limit.restart();  // to leave is a wait of its own
    }
    membership.report_state(held_.state());
    // Reports that this member waits for a world, and is not behind other members.
    membership.report_progress(membership.world().generation, 0);
    auto next = connector_->wait_after(failed, runtime_.now() + base::kStandingInterval);
    if (next.ok()) {
      failed = next->world.generation;
      auto entry = come_into(*std::move(next));
      if (entry.ok() || life_.is_final(entry.status())) return entry;
      base::log_warning("generation {} did not begin: {}", failed, entry.status().message());
      abort();
      ask_at = runtime_.now() + patience;
      may_ask = true;
      continue;
    }
    if (life_.may_come_back()) continue;
    if (next.status().code() != StatusCode::kTimeout || is_over) return next.status();
    const Time now = runtime_.now();
    if (now < ask_at || !may_ask) continue;
    membership.report_failure(failed);
    ask_at = now + patience;
  }
}

// Begins the next life of this member, after the fence. Nothing of the old one acts any more: its
// collectives are aborted, and its tasks have ended. The state stays. This thread waits for no call
// to the store without looks.
Status WorldChange::come_back(const WaitLimit& limit) {
  base::log_warning("{}; it joins again with the state of step {}",
                    life_.membership().life_status().message(), held_.label().step);
  abort();
  wait_for_giving();
  FFDL_RETURN_IF_ERROR(wait_with_looks(activating_, limit));
  FFDL_RETURN_IF_ERROR(wait_with_looks(departure_.task(), limit));
  {
    MutexLock lock(mutex_);
    is_rejoin_wanted_ = true;
  }
  const bool has_started = rejoining_.start(
      "ffdl-rejoin",
      [this, limit, earlier = std::shared_ptr(std::move(connector_))](const StopToken&) mutable {
        earlier.reset();  // its tasks use the life that has ended
        return rejoin(limit);
      });
  if (!has_started) return base::no_thread("ffdl-rejoin");
  const Status looked = wait_with_looks(rejoining_, limit);
  if (!looked.ok()) {
    give_up_rejoin();
    return looked;
  }
  FFDL_RETURN_IF_ERROR(Status(rejoining_.outcome()));
  std::unique_ptr<Membership> next;
  {
    MutexLock lock(mutex_);
    next = std::move(rejoined_);
  }
  life_.come_back(std::move(next));
  start_connecting();
  return has_begun() ? Status() : base::no_thread("ffdl-connect");
}

// Waits for the end of a task that may wait for the store.
Status WorldChange::wait_with_looks(StoreTask& task, const WaitLimit& limit) {
  while (task.has_started() && !task.wait_until(runtime_.now() + base::kStandingInterval)) {
    FFDL_RETURN_IF_ERROR(life_.look());
    // A task that ends with the limit says what failed.
    if (!limit.is_over_for(options_.membership.lease)) continue;
    return make_error(StatusCode::kTimeout,
                      "member '{}': it could not join again after it was away: the store has not "
                      "answered",
                      life_.self().id);
  }
  task.join();
  return life_.look();
}

// Runs as the task `rejoining_`.
Status WorldChange::rejoin(const WaitLimit& limit) {
  const auto is_wanted = [this, &limit] {
    if (limit.is_over()) return false;
    MutexLock lock(mutex_);
    return is_rejoin_wanted_;
  };
  auto next = life_.membership().rejoin(held_.state(), is_wanted);
  FFDL_RETURN_IF_ERROR(Status(next.status()));
  MutexLock lock(mutex_);
  if (is_rejoin_wanted_) rejoined_ = std::move(next).value();
  return {};
}

void WorldChange::give_up_rejoin() {
  std::unique_ptr<Membership> dropped;
  MutexLock lock(mutex_);
  is_rejoin_wanted_ = false;
  dropped = std::move(rejoined_);
}

Result<Entry> WorldChange::change_over(uint64_t generation) {
  auto next = connector_->take(generation);
  if (!next) return recover(Old::kKeep);
  auto entry = enter(*std::move(next));
  if (entry.ok() || life_.is_final(entry.status())) return entry;
  return recover(Old::kAbort);
}

Result<Entry> WorldChange::come_into(Connected next) {
  // Other members begin the job again: this member keeps its last state.
  if (held_.is_last() && next.world.begins_anew()) return Entry::kFinished;
  FFDL_ASSIGN_OR_RETURN(const Entry entry, enter(std::move(next)));
  FFDL_ASSIGN_OR_RETURN(const bool is_at_end, find_end());
  return is_at_end ? Entry::kFinished : entry;
}

Result<Entry> WorldChange::enter(Connected next) {
  wait_for_giving();
  const World& coming = next.world;
  FFDL_CHECK(coming.generation > world_.generation, "a member goes from a world to a newer one");
  FFDL_CHECK(coming.rank >= 0 && coming.rank < coming.size() &&
                 coming.members[static_cast<size_t>(coming.rank)] == life_.self(),
             "a member enters worlds that have it, under its own rank");
  exchange_.change_world();  // gathered messages are of the previous world's members
  FFDL_RETURN_IF_ERROR(held_.memory().follow());  // the code below reads the state
  {
    MutexLock lock(mutex_);
    previous_ = std::exchange(communicator_, std::move(next.communicator));
  }
  // If the life ended before this, the previous communicator was aborted. If it ends now, this one
  // is.
  FFDL_RETURN_IF_ERROR(life_.membership().life_status());
  FFDL_RETURN_IF_ERROR(check_reach());
  for (const auto& memory : options_.shared_memory) {
    FFDL_RETURN_IF_ERROR(communicator()->register_memory(memory));
  }
  world_ = std::move(next.world);
  is_active_ = false;
  connector_->set_present(world_);
  ++stats_.worlds;
  life_.membership().report_progress(world_.generation, held_.label().step);
  FFDL_RETURN_IF_ERROR(connect_gpus());
  FFDL_ASSIGN_OR_RETURN(const RescalePlan plan, plan_world());
  FFDL_RETURN_IF_ERROR(check_fit(plan));
  return take_part(plan);
}

// Checks the communicator of a user's factory.
Status WorldChange::check_reach() {
  if (!needs_device_reach_ || reaches_devices(communicator()->backend())) return {};
  return base::invalid_argument(
      "join job '{}' as '{}': the gradients are in a GPU's memory, but SessionOptions::connect "
      "made a communicator that uses the host's; make a communicator of kNccl or kDeviceShm",
      options_.membership.job, options_.self.id);
}

// Connects the GPUs if the communicator has left that until now. Any failure is one of this world,
// not of the session: another world may leave out the member that cannot. A lost peer makes that
// world by itself.
Status WorldChange::connect_gpus() {
  Status connected = communicator()->continue_from(previous_.get(), operation_deadline());
  if (connected.ok() || connected.code() == StatusCode::kPeerLost) return connected;
  life_.membership().report_failure(world_.generation);
  return make_error(StatusCode::kPeerLost, "its GPUs were not connected: {}", connected.message());
}

// Plans from which state this world goes on.
Result<RescalePlan> WorldChange::plan_world() {
  if (world_.begins_anew()) return plan_beginning();
  const HeldState::Label& label = held_.label();
  FFDL_ASSIGN_OR_RETURN(
      const auto reports,
      gather_reports({label.lineage, label.generation, label.step}, label.holds));
  return plan_rescale(reports, world_);
}

// Plans the beginning of a lineage: with the newest state that a member holds complete. If a
// checkpoint is newer, rank 0 loads it; if no member holds a state, the members begin with the
// initial one. With consistent recovery no member's state counts.
Result<RescalePlan> WorldChange::plan_beginning() {
  const auto checkpoint = life_.membership().restart_base();
  const bool may_hold =
      options_.membership.recovery == Recovery::kForward && world_.lineage > 1;
  std::vector<Report> held;
  if (may_hold) {
    FFDL_ASSIGN_OR_RETURN(const auto mine, life_.membership().label_at_beginning(
                                               world_, held_.state()));
    FFDL_ASSIGN_OR_RETURN(held, gather_reports(mine.value_or(StateLabel{}), mine.has_value()));
    std::optional<StateLabel> saved;
    if (checkpoint) saved = checkpoint->label();
    FFDL_ASSIGN_OR_RETURN(auto plan, plan_from_memory(held, world_, saved));
    if (plan) return *std::move(plan);
  }
  FFDL_ASSIGN_OR_RETURN(const StateLabel loaded, begin_anew(checkpoint));
  FFDL_ASSIGN_OR_RETURN(const auto reports, gather_reports(loaded, false));
  const StateLabel base = {reports[0].lineage, reports[0].generation, reports[0].step};
  if (may_hold && checkpoint) {
    // Rank 0 may have loaded an older checkpoint than the newest one, which was damaged.
    held[0].holds = 0;
    FFDL_ASSIGN_OR_RETURN(auto plan, plan_from_memory(held, world_, base));
    if (plan) return *std::move(plan);
  }
  FFDL_ASSIGN_OR_RETURN(RescalePlan plan, plan_rescale(reports, world_));
  if (base.lineage > 0) plan.base = plan.made = base;
  return plan;
}

// Makes the state that rank 0 begins with. Other members without it take it over from rank 0.
// Returns the label that a loaded state has in its lineage of this job; all 0: there is none. If
// all go back, all void their states. Otherwise the other members keep theirs until they have the
// new one, since rank 0 may die before.
Result<StateLabel> WorldChange::begin_anew(const std::optional<CheckpointPointer>& base) {
  if (base && checkpoints_ == nullptr) {
    return base::invalid_argument(
        "begin lineage {} of job '{}' from checkpoint '{}': this session has no folder of "
        "checkpoints; set the folder that contains this checkpoint",
        world_.lineage, options_.membership.job, base->manifest);
  }
  const bool goes_back = options_.membership.recovery == Recovery::kConsistent;
  if (goes_back || !base || world_.rank == 0) held_.give_up();
  if (checkpoints_ == nullptr) {
    FFDL_RETURN_IF_ERROR(held_.begin_anew());
    return StateLabel{};
  }
  if (world_.rank != 0) return StateLabel{};
  const auto loaded = checkpoints_->load(base, held_.buffers());
  if (!loaded.ok() || *loaded) held_.note_changed();
  if (!loaded.ok()) {
    FFDL_ASSIGN_OR_RETURN(const bool late, is_late());
    if (late) {
      return make_error(StatusCode::kWorldChanged, "begin generation {}: {}", world_.generation,
                        loaded.status().message());
    }
  }
  FFDL_RETURN_IF_ERROR(Status(loaded.status()));
  if (!*loaded) {
    FFDL_RETURN_IF_ERROR(held_.begin_anew());
    return StateLabel{};
  }
  const Checkpoint& checkpoint = **loaded;
  FFDL_RETURN_IF_ERROR(held_.begin_from(checkpoint));
  base::log_info("job '{}': lineage {} begins with step {} of checkpoint '{}'",
                 options_.membership.job, world_.lineage, held_.label().step, checkpoint.folder);
  if (!base || checkpoint.job != options_.membership.job) return StateLabel{};
  const StateLabel label = {checkpoint.lineage, checkpoint.generation, checkpoint.step};
  // An older one in its place may be of a former job of this name.
  return label <= base->label() ? label : StateLabel{};
}

// Reports whether other members went on without this one. They may have removed the checkpoint
// meanwhile.
Result<bool> WorldChange::is_late() {
  Membership& membership = life_.membership();
  const WaitLimit limit = departure_.begin_wait();
  while (membership.life_status().ok() && !limit.is_over()) {
    FFDL_RETURN_IF_ERROR(life_.look());
    // The membership's last view may be as late as this member.
    const auto seen = read_job(store_, options_.membership.job);
    if (seen.ok()) return seen->world.generation > world_.generation;
    const auto next = membership.wait_world_after(world_.generation,
                                                  runtime_.now() + base::kStandingInterval);
    if (next.ok()) return true;
  }
  return true;  // the job is gone, which this member learns next
}

// Gathers what each member reports: the label of the state that it holds, or that it has loaded.
Result<std::vector<Report>> WorldChange::gather_reports(const StateLabel& label, bool holds) {
  FFDL_RETURN_IF_ERROR(life_.membership().life_status());
  const StateLabel made = held_.state().value_or(StateLabel{});
  Report mine = {base::kProtocolVersion,
                 model_,
                 holds ? 1U : 0U,
                 label.lineage,
                 label.generation,
                 held_.label().step,
                 held_.label().history,
                 0,
                 made.lineage,
                 made.generation};
  if (options_.verify_state || world_.begins_anew()) {
    FFDL_ASSIGN_OR_RETURN(mine.hash, held_.hash_with_participants());
  }
  std::vector<Report> reports(world_.members.size());
  FFDL_RETURN_IF_ERROR(communicator()->all_gather(
      as_bytes(&mine, sizeof mine), as_bytes(reports.data(), reports.size() * sizeof(Report)),
      operation_deadline()));
  return reports;
}

Status WorldChange::check_fit(const RescalePlan& plan) const {
  for (const int rank : plan.refused) {
    if (rank == world_.rank) {
      return base::invalid_argument(
          "join job '{}' as '{}': this member's state, gradients, buckets or participants have "
          "other shapes than those of the job, its gradients are in another kind of memory, or its "
          "non_finite is another value; run the same program with the same model everywhere",
          options_.membership.job, options_.self.id);
    }
  }
  if (plan.refused.empty()) return {};
  return make_error(StatusCode::kPeerLost, "'{}' has a different model, or different options",
                    world_.members[static_cast<size_t>(plan.refused.front())].id);
}

Result<Entry> WorldChange::take_part(const RescalePlan& plan) {
  FFDL_CHECK(plan.from.size() == world_.members.size(), "a plan says of each member what it does");
  const int from = plan.from[static_cast<size_t>(world_.rank)];
  FFDL_CHECK(from != world_.rank, "nobody takes the state over from itself");
  FFDL_CHECK(from != RescalePlan::kOwn || world_.begins_anew() ||
                 (held_.label().holds && held_.label().step == plan.step),
             "who keeps its state has the step that all go on from");
  if (from == RescalePlan::kOwn) {
    give_state(plan);
  } else {
    FFDL_RETURN_IF_ERROR(take_over_state(plan));
  }
  held_.enter(world_, plan);
  if (world_.begins_anew()) {
    world_.continues = life_.membership().continued_lineage(plan.base);
  }
  held_.announce(world_);
  FFDL_RETURN_IF_ERROR(life_.look());
  const bool is_from_memory = !plan.holder.empty();
  life_.membership().report_state(held_.state());
  if (is_from_memory && world_.rank == 0) {
    base::log_warning(
        "job '{}': lineage {} begins at step {} of lineage {}, from the memory of '{}'",
        options_.membership.job, world_.lineage, plan.step, plan.base.lineage, plan.holder);
  }
  if (world_.rank == 0) {
    base::log_info("job '{}': generation {} has {} members, from step {}", options_.membership.job,
                   world_.generation, world_.size(), held_.label().step);
  }
  const bool is_same = from == RescalePlan::kOwn && (!world_.begins_anew() || is_from_memory);
  return is_same ? Entry::kSame : Entry::kHealed;
}

// --- the state -----------------------------------------------------------------------------------

Status WorldChange::take_over_state(const RescalePlan& plan) {
  const auto from = static_cast<uint64_t>(plan.from[static_cast<size_t>(world_.rank)]);
  const StateTransfer label = {world_.generation, plan.step, from,
                               static_cast<uint64_t>(world_.rank)};
  FFDL_RETURN_IF_ERROR(
      held_.receive(*communicator(), label, [this] { return operation_deadline(); }));
  ++stats_.healed;
  stats_.bytes_received += bytes_of(held_.buffers());
  return {};
}

// Sends the state by a task. The state does not change before the next sum, which waits for the
// receivers.
void WorldChange::give_state(const RescalePlan& plan) {
  std::vector<int> to;
  for (size_t rank = 0; rank < plan.from.size(); ++rank) {
    if (plan.from[rank] == world_.rank) to.push_back(static_cast<int>(rank));
  }
  if (to.empty()) return;
  FFDL_CHECK(!giving_, "the members of the world before have taken what they were given");
  given_->reset();
  StateTransfer label = {world_.generation, plan.step, static_cast<uint64_t>(world_.rank), 0};
  giving_ = runtime_.spawn("ffdl-give", [this, to, label, beside = held_.participants().save(),
                                         on = communicator()](const StopToken&) mutable {
    const auto deadline = [this] { return operation_deadline(); };
    bytes_given_ = 0;
    for (const int rank : to) {
      label.to = static_cast<uint64_t>(rank);
      const Status sent = send_state(*on, label, held_.memory(), held_.buffers(), beside, deadline);
      if (!sent.ok()) {
        on->abort(sent);  // the next operation of this member reports it
        break;
      }
      bytes_given_ += bytes_of(held_.buffers());
    }
    given_->set();
  });
  if (!giving_) communicator()->abort(base::no_thread("ffdl-give"));
}

void WorldChange::wait_for_giving() {
  if (!giving_) return;
  while (!given_->wait_until(life_.next_look())) {
    if (!life_.look().ok()) abort();
  }
  giving_.reset();
  stats_.bytes_sent += bytes_given_;
}

// --- the world counts ----------------------------------------------------------------------------

// Rank 0 activates the world; other ranks do if it does not.
Status WorldChange::become_active() {
  if (is_active_) return {};
  Membership& membership = life_.membership();
  bool is_my_turn = world_.rank == 0;
  activating_.join();
  while (true) {
    if (is_my_turn && !activating_.has_started() && !start_activating()) {
      // No thread is left: this one writes.
      const Status made =
          membership.activate(world_.generation, operation_deadline(), held_.base(),
                              held_.base_holder());
      if (!made.ok() && made.code() != StatusCode::kTimeout) return made;
    }
    const Status seen =
        membership.wait_active(world_.generation, runtime_.now() + base::kStandingInterval);
    FFDL_RETURN_IF_ERROR(life_.look());
    if (seen.ok()) break;
    if (seen.code() != StatusCode::kTimeout) return seen;
    if (activating_.has_failed()) activating_.join();
    is_my_turn = true;
  }
  activating_.join();
  is_active_ = true;
  previous_.reset();
  return {};
}

bool WorldChange::start_activating() {
  return activating_.start("ffdl-activate",
                           [&membership = life_.membership(), generation = world_.generation,
                            deadline = operation_deadline(), base = held_.base(),
                            holder = held_.base_holder()](const StopToken&) {
                             return membership.activate(generation, deadline, base, holder);
                           });
}

// --- the end of the job --------------------------------------------------------------------------

// Reports whether the job is done and this member has its last state, from the last checkpoint if
// necessary.
Result<bool> WorldChange::find_end() {
  Membership& membership = life_.membership();
  const auto end = membership.completion();
  if (!end || held_.is_last()) return false;
  const HeldState::Label& label = held_.label();
  const bool is_of_lineage = label.holds && label.lineage == end->lineage;
  if (is_of_lineage && label.generation >= end->generation && label.step == end->step) return true;
  const auto checkpoint = membership.checkpoint();
  const bool is_last =
      checkpoint && checkpoint->lineage == end->lineage && checkpoint->step == end->step;
  if (checkpoints_ != nullptr && is_last && !std::exchange(has_tried_end_, true)) {
    FFDL_ASSIGN_OR_RETURN(const bool has_loaded, load_end(*end, *checkpoint));
    if (has_loaded) return true;
  }
  if (membership.is_state_held()) return false;
  return make_error(StatusCode::kNotFound,
                    "open a session as '{}': job '{}' is done at step {}, and neither a member "
                    "nor a checkpoint has its last state; give checkpoints to keep it, or begin "
                    "the job again",
                    options_.self.id, options_.membership.job, end->step);
}

// Returns false if the checkpoint cannot be read, or holds another state.
Result<bool> WorldChange::load_end(const StateLabel& end, const CheckpointPointer& pointer) {
  held_.overwrite();
  FFDL_RETURN_IF_ERROR(held_.memory().follow());
  const auto loaded = checkpoints_->load(pointer, held_.buffers());
  if (!loaded.ok() || !*loaded || (*loaded)->step != end.step) {
    base::log_warning("job '{}' is done, but its last checkpoint '{}' cannot be used: {}",
                      options_.membership.job, pointer.manifest,
                      loaded.ok() ? "it is of another step" : loaded.status().message());
    return false;
  }
  FFDL_ASSIGN_OR_RETURN(const uint64_t hash, held_.hash());
  if (hash != end.hash) {
    base::log_warning("job '{}' is done, but its last checkpoint '{}' holds another state",
                      options_.membership.job, pointer.manifest);
    return false;
  }
  FFDL_RETURN_IF_ERROR(held_.end_with(**loaded, end));
  world_ = {.members = {life_.self()}, .lineage = end.lineage, .state_holders = {life_.self()}};
  held_.announce(world_);
  FFDL_RETURN_IF_ERROR(life_.look());
  return true;
}

}  // namespace ffdl::elastic
