#include "sim/worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"

namespace ffdl::sim {

using namespace std::chrono_literals;

namespace {

// The first step of a world takes this place among its gathers.
constexpr uint64_t kFirstStep = 2;

}  // namespace

Worker::Worker(Shared& shared, SimNode& node, std::unique_ptr<FaultyStore> store, std::string id,
               std::string takes_over_from)
    : Process(node, std::move(store), std::move(id), std::move(takes_over_from)),
      shared_(shared),
      runtime_(shared.runtime) {
  task_ = node_.spawn("user", [this](const StopToken&) {
    run();
    has_ended_ = true;
  });
}

bool Worker::may_use_state() const {
  return !node_.is_killed() && store_->has_renewed_within(shared_.options.fence_after) &&
         membership_ && membership_->life_status().ok();
}

void Worker::run() {
  MembershipOptions options = shared_.options;
  options.takes_over_from = takes_over_from_;
  while (!node_.is_killed() && !has_ended_) {
    if (!join(options).ok()) {
      runtime_.sleep(runtime_.up_to(100ms));
      continue;
    }
    live();
  }
  membership_.reset();
}

// Joins anew, or again after the fence: then with the state.
Status Worker::join(const MembershipOptions& options) {
  const bool is_fenced = membership_ != nullptr && membership_->is_fenced();
  const bool keeps = is_fenced && options.recovery == Recovery::kForward && state_.lineage > 0;
  if (keeps) {
    auto again = membership_->rejoin(state_.held(), [this, until = in(2s)] {
      return !node_.is_killed() && in({}) < until;
    });
    if (again.status().code() == StatusCode::kCancelled) membership_.reset();
    FFDL_RETURN_IF_ERROR(Status(again.status()));
    membership_ = std::move(again).value();
    if (shared_.mutant == Mutant::kFencedBeatsCarrier) state_.generation = 1'000'000;
    return {};
  }
  membership_.reset();
  FFDL_ASSIGN_OR_RETURN(membership_,
                        Membership::join(*store_, node_, {id_, 0, id_ + ":1"}, options));
  state_ = {};
  unpublished_.reset();
  return {};
}

// Runs until the life of the membership or the process ends.
void Worker::live() {
  uint64_t generation = 0;
  while (!node_.is_killed()) {
    if (is_leaving_) membership_->ask_to_leave();
    if (membership_->may_leave()) {
      has_ended_ = membership_->leave(in(5s)).ok();
      return;
    }
    const auto world = membership_->wait_world_after(generation, in(200ms));
    if (!world.ok() && world.status().code() != StatusCode::kTimeout) return;
    if (unpublished_ && publish().code() == StatusCode::kCancelled) return;
    if (!world.ok()) continue;
    generation = world->generation;
    shared_.checker.on_seen(generation, world->members);
    membership_->report_progress(generation, 0);
    if (world->rank < 0) continue;
    const Status trained = train(*world);
    if (trained.code() == StatusCode::kCancelled) return;
    if (!trained.ok()) membership_->report_failure(generation);
  }
}

Status Worker::train(const World& world) {
  runtime_.sleep(runtime_.up_to(shared_.pace.settle_max));
  FFDL_ASSIGN_OR_RETURN(State base, find_base(world));
  FFDL_RETURN_IF_ERROR(life_status());
  state_ = {world.lineage, world.generation, std::move(base.steps), base.began_from, base.made};
  membership_->report_state(state_.held());
  FFDL_RETURN_IF_ERROR(gather(world, 1).status());
  const Status made = membership_->activate(world.generation, in(100ms), state_.began_from);
  if (made.code() == StatusCode::kCancelled) return life_status();
  return run_steps(world);
}

Status Worker::begin_anew(const World& world) {
  FFDL_RETURN_IF_ERROR(is_outdated(world));
  if (shared_.mutant == Mutant::kKeepsState && !state_.steps.empty()) return {};
  const auto base = membership_->restart_base();
  state_ = {world.lineage, 0};
  if (base) {
    state_.steps = shared_.checker.saved(base->manifest).steps;
    state_.began_from = state_.made = base->label();
  }
  return {};
}

// Returns the state with which the world begins.
Result<State> Worker::find_base(const World& world) {
  const bool may_keep = world.begins_anew() && !world.gives_up &&
                        shared_.options.recovery == Recovery::kForward;
  std::optional<State> base;
  if (!world.begins_anew() || may_keep) {
    FFDL_RETURN_IF_ERROR(is_outdated(world));
    FFDL_ASSIGN_OR_RETURN(base, take_base(world, may_keep));
  }
  if (base) return *std::move(base);
  // All members load the same state.
  FFDL_RETURN_IF_ERROR(begin_anew(world));
  if (!may_keep) {
    FFDL_ASSIGN_OR_RETURN(base, take_base(world, false));
    return *std::move(base);
  }
  shared_.checker.on_base(world.generation, state_);
  return state_;
}

// Returns the newest state of the members, unless a lineage begins and none holds one that is as
// new as the checkpoint. This member copies it, and the source may die during the copy.
Result<std::optional<State>> Worker::take_base(const World& world, bool is_beginning) {
  const auto checkpoint = membership_->restart_base();
  state_.reported.reset();
  if (is_beginning) {
    FFDL_ASSIGN_OR_RETURN(state_.reported,
                          membership_->label_at_beginning(world, state_.held()));
  }
  if (!is_beginning && state_.lineage == world.lineage) state_.reported = state_.label();
  if (is_beginning && state_.reported) {
    shared_.checker.on_held(world.generation, *state_.reported, state_.steps);
  }
  if (is_beginning && shared_.mutant == Mutant::kVoidsLiveState) state_ = {};
  FFDL_ASSIGN_OR_RETURN(const auto states, gather(world, 0));
  if (shared_.mutant == Mutant::kActiveEarly) {
    static_cast<void>(membership_->activate(world.generation, in(200ms)).ok());
  }
  const auto is_older = [&](const SharedState& a, const SharedState& b) {
    return a->reported < b->reported;
  };
  auto source = std::max_element(states.begin(), states.end(), is_older);
  if (is_beginning && shared_.mutant == Mutant::kOlderBase) {
    source = std::find_if(states.begin(), states.end(),
                          [](const SharedState& state) { return state->reported.has_value(); });
    if (source == states.end()) return std::optional<State>();
  }
  const std::optional<StateLabel> newest = (*source)->reported;
  const bool is_behind =
      checkpoint && newest < checkpoint->label() && shared_.mutant != Mutant::kBehindCheckpoint;
  if (is_beginning && (!newest || is_behind)) return std::optional<State>();
  State base = **source;
  if (is_beginning) base.began_from = *newest;
  shared_.checker.on_base(world.generation, base);
  if (state_.reported == newest) return std::optional(std::move(base));
  runtime_.sleep(runtime_.up_to(shared_.pace.heal_max));
  const Member& from = world.members[static_cast<size_t>(source - states.begin())];
  if (node_.is_killed() || !shared_.is_alive(from)) {
    return base::make_error(StatusCode::kPeerLost, "heal from '{}': it is gone", from.id);
  }
  return std::optional(std::move(base));
}

Status Worker::run_steps(const World& world) {
  bool is_active = shared_.mutant == Mutant::kOkBeforeActive;
  for (uint64_t step = 0;; ++step) {
    runtime_.sleep(runtime_.chance(shared_.pace.hang) ? runtime_.up_to(8s)
                                                      : runtime_.up_to(shared_.pace.compute_max));
    if (is_leaving_) membership_->ask_to_leave();
    FFDL_RETURN_IF_ERROR(life_status());
    shared_.checker.on_act(world);
    membership_->report_state(state_.held());
    membership_->report_progress(world.generation, step + 1);
    FFDL_ASSIGN_OR_RETURN(const auto states, gather(world, kFirstStep + step));
    shared_.checker.on_sum(states);
    if (!is_active) FFDL_RETURN_IF_ERROR(make_active(world));
    is_active = true;
    FFDL_RETURN_IF_ERROR(life_status());
    shared_.checker.on_act(world);
    shared_.checker.on_stable(world, state_.steps);
    if (runtime_.chance(shared_.pace.publish)) save(state_);
    state_.steps.push_back(world.generation * 1'000'000 + step + 1);
    state_.made = {world.lineage, world.generation, state_.steps.size()};
    if (unpublished_ && runtime_.chance(0.5) && publish().code() == StatusCode::kCancelled) {
      return life_status();
    }
    if (membership_->may_leave()) return {};
  }
}

// Activates the world. The first member that reaches the store does it.
Status Worker::make_active(const World& world) {
  while (true) {
    const Status seen = membership_->wait_active(world.generation, in(100ms));
    if (seen.code() != StatusCode::kTimeout) return seen;
    const Status made = membership_->activate(world.generation, in(100ms), state_.began_from);
    if (!made.ok() && made.code() != StatusCode::kTimeout) return made;
  }
}

void Worker::save(const State& stable) {
  const Member& self = membership_->self();
  const std::string manifest =
      fmt::format("{}-{}-{}", node_.name(), self.incarnation, ++checkpoints_);
  shared_.checker.on_saved(manifest, stable);
  unpublished_ = {stable.lineage, stable.generation, stable.steps.size(), manifest, 0};
}

Status Worker::publish() {
  CheckpointPointer checkpoint = *unpublished_;
  if (shared_.mutant == Mutant::kForeignCheckpoint) {
    checkpoint.lineage = membership_->world().lineage;
  }
  const auto newest = membership_->checkpoint();
  if (shared_.mutant == Mutant::kOlderCheckpoint && newest) {
    checkpoint.generation = newest->generation;
    checkpoint.step = newest->step + 1;
  }
  const Status published = membership_->publish_checkpoint(checkpoint, in(200ms));
  if (published.code() != StatusCode::kTimeout) unpublished_.reset();
  return published;
}

Result<std::vector<SharedState>> Worker::gather(const World& world, uint64_t sequence) {
  const std::shared_ptr<Event> event = node_.make_event();
  std::vector<SharedState> states;
  Status outcome =
      node_.is_killed() ? base::make_error(StatusCode::kCancelled, "killed") : Status();
  if (outcome.ok()) {
    shared_.bus.give(world.generation, sequence, membership_->self(),
                     std::make_shared<const State>(state_));
  }
  shared_.bus.add(event);
  while (outcome.ok()) {
    event->reset();
    states = shared_.bus.take(world.generation, sequence, world.members);
    if (!states.empty()) break;
    outcome = is_outdated(world);
    if (outcome.ok() && membership_->may_leave()) {
      outcome = base::make_error(StatusCode::kPeerLost, "gather: all others leave or have left");
    }
    if (outcome.ok()) event->wait_until(in(50ms));
    if (outcome.ok()) outcome = life_status();
  }
  shared_.bus.remove(event);
  FFDL_RETURN_IF_ERROR(std::move(outcome));
  // An abort may arrive between the last arrival and the return at some members.
  runtime_.sleep(runtime_.up_to(5ms));
  if (runtime_.chance(shared_.pace.fail)) {
    return base::make_error(StatusCode::kTimeout, "gather in generation {}: too late",
                            world.generation);
  }
  if (runtime_.chance(0.5)) FFDL_RETURN_IF_ERROR(is_outdated(world));
  return states;
}

Status Worker::life_status() {
  if (node_.is_killed()) return base::make_error(StatusCode::kCancelled, "killed");
  return shared_.mutant == Mutant::kIgnoresFence ? Status() : membership_->life_status();
}

Status Worker::is_outdated(const World& world) const {
  if (membership_->world().generation == world.generation) return {};
  return base::make_error(StatusCode::kWorldChanged, "generation {} is over", world.generation);
}

}  // namespace ffdl::sim
