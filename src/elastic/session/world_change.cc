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
      model_(settings.model),
      needs_device_reach_(settings.needs_device_reach),
      activating_(runtime_),
      given_(runtime_.make_event()) {
  connector_ = std::make_unique<NextWorldConnector>(
      life_.membership(), runtime_,
      NextWorldConnector::Options{std::move(settings.connect), options_.recovery_timeout},
      [this](uint64_t generation, const Status& why) { end_worlds(generation, why); });
}

WorldChange::~WorldChange() { stop(); }

void WorldChange::stop() {
  giving_.reset();
  activating_.join();
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
  Membership& membership = life_.membership();
  if (old == Old::kAbort) abort();
  // A member that ended with the job sends its state only to members within reach.
  const Duration limit = held_.is_last()
                             ? std::min(options_.recovery_timeout, options_.membership.fence_after)
                             : options_.recovery_timeout;
  const Time deadline = runtime_.now() + limit;
  // The store detects a death, and a world forms without a request.
  const Duration patience = 2 * options_.membership.lease;
  Time ask_at = runtime_.now() + patience;
  uint64_t failed = world_.generation;
  bool may_ask = old == Old::kAbort;
  while (true) {
    FFDL_RETURN_IF_ERROR(life_.look());
    FFDL_RETURN_IF_ERROR(membership.life_status());
    FFDL_ASSIGN_OR_RETURN(const bool is_at_end, find_end());
    if (is_at_end) return Entry::kFinished;
    if (membership.may_leave()) {
      FFDL_ASSIGN_OR_RETURN(const bool has_left, departure_.leave(world_.generation));
      if (has_left) return Entry::kLeft;
    }
    // Reports that this member waits for a world, and is not behind other members.
    membership.report_progress(membership.world().generation, 0);
    const Time now = runtime_.now();
    auto next =
        connector_->wait_after(failed, std::min<Time>(deadline, now + base::kStandingInterval));
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
    if (next.status().code() != StatusCode::kTimeout || now >= deadline) return next.status();
    if (now < ask_at || !may_ask) continue;
    membership.report_failure(failed);
    ask_at = now + patience;
  }
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
  if (world_.begins_anew()) FFDL_RETURN_IF_ERROR(begin_anew());
  FFDL_ASSIGN_OR_RETURN(const std::vector<Report> reports, gather_reports());
  FFDL_ASSIGN_OR_RETURN(const RescalePlan plan, plan_rescale(reports, world_));
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

// Makes the state that rank 0 begins with. Other members without it take it over from rank 0.
Status WorldChange::begin_anew() {
  const auto base = life_.membership().restart_base();
  if (base && checkpoints_ == nullptr) {
    return base::invalid_argument(
        "begin lineage {} of job '{}' from checkpoint '{}': this session has no folder of "
        "checkpoints; set the folder that contains this checkpoint",
        world_.lineage, options_.membership.job, base->manifest);
  }
  held_.give_up();
  if (checkpoints_ == nullptr) return held_.begin_anew();
  if (world_.rank != 0) return {};
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
  if (!*loaded) return held_.begin_anew();
  FFDL_RETURN_IF_ERROR(held_.begin_from(**loaded));
  base::log_info("job '{}': lineage {} begins with step {} of checkpoint '{}'",
                 options_.membership.job, world_.lineage, held_.label().step, (*loaded)->folder);
  return {};
}

// Reports whether other members went on without this one. They may have removed the checkpoint
// meanwhile.
Result<bool> WorldChange::is_late() {
  Membership& membership = life_.membership();
  const Time deadline = runtime_.now() + options_.recovery_timeout;
  while (membership.life_status().ok() && runtime_.now() < deadline) {
    FFDL_RETURN_IF_ERROR(life_.look());
    // The membership's last view may be as late as this member.
    const auto seen = read_job(store_, options_.membership.job);
    if (seen.ok()) return seen->world.generation > world_.generation;
    const Time soon = runtime_.now() + base::kStandingInterval;
    const auto next =
        membership.wait_world_after(world_.generation, std::min<Time>(deadline, soon));
    if (next.ok()) return true;
  }
  return true;  // the job is gone, which this member learns next
}

Result<std::vector<Report>> WorldChange::gather_reports() {
  FFDL_RETURN_IF_ERROR(life_.membership().life_status());
  const bool must_hash = options_.verify_state || world_.begins_anew();
  const HeldState::Label& label = held_.label();
  Report mine = {base::kProtocolVersion, model_,     label.holds ? 1U : 0U, label.lineage,
                 label.generation,       label.step, label.history,         0};
  if (must_hash) {
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
  held_.announce(world_);
  FFDL_RETURN_IF_ERROR(life_.look());
  if (world_.rank == 0) {
    base::log_info("job '{}': generation {} has {} members, from step {}", options_.membership.job,
                   world_.generation, world_.size(), held_.label().step);
  }
  const bool is_same = from == RescalePlan::kOwn && !world_.begins_anew();
  return is_same ? Entry::kSame : Entry::kHealed;
}

// --- the state -----------------------------------------------------------------------------------

Status WorldChange::take_over_state(const RescalePlan& plan) {
  const auto from = static_cast<uint64_t>(plan.from[static_cast<size_t>(world_.rank)]);
  const StateLabel label = {world_.generation, plan.step, from, static_cast<uint64_t>(world_.rank)};
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
  StateLabel label = {world_.generation, plan.step, static_cast<uint64_t>(world_.rank), 0};
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
      const Status made = membership.activate(world_.generation, operation_deadline());
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
                            deadline = operation_deadline()](const StopToken&) {
                             return membership.activate(generation, deadline);
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
Result<bool> WorldChange::load_end(const Completion& end, const CheckpointPointer& pointer) {
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
