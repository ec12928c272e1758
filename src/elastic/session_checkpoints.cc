#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "elastic/session_impl.h"
#include "ffdl/job_status.h"

// What a session does for its checkpoints, and what it begins with; on the user's thread.
namespace ffdl {

void Session::Impl::start_checkpoints() {
  if (options_.checkpoints.folder.empty()) return;
  elastic::Checkpointer::Job job;
  job.name = options_.membership.job;
  job.is_here = [this](const Member& member) { return membership_->is_candidate(member); };
  job.world = [this] { return membership_->world(); };
  job.newest = [this] { return membership_->checkpoint(); };
  job.publish = [this](const CheckpointPointer& checkpoint, Time deadline) {
    return membership_->publish_checkpoint(checkpoint, deadline);
  };
  auto tensors = elastic::describe_tensors(state_, options_.checkpoints.names);
  checkpoints_ = std::make_unique<elastic::Checkpointer>(
      options_.checkpoints, std::move(tensors).value(), runtime_, *memory_.of_both, std::move(job));
}

void Session::Impl::take_checkpoint() {
  if (!checkpoints_) return;
  checkpoints_->take({&world_, step_, history_, state_, [this] { return save_beside(); }});
}

// Its own share, before this member leaves; or until it counts, before the last ones do.
Status Session::Impl::wait_for_checkpoint(Until until) {
  const Time deadline = runtime_.now() + options_.recovery_timeout;
  while (runtime_.now() < deadline && membership_->standing().ok()) {
    checkpoints_->progress().reset();
    if (until == Until::kIdle ? checkpoints_->is_idle() : checkpoints_->is_written()) break;
    FFDL_RETURN_IF_ERROR(look());
    checkpoints_->progress().wait_until(next_look(deadline));
  }
  return {};
}

void Session::Impl::request_checkpoint() {
  if (checkpoints_) checkpoints_->request();
}

Status Session::Impl::checkpoint_status() const {
  return checkpoints_ ? checkpoints_->stats().last : Status();
}

SessionStats Session::Impl::stats() const {
  SessionStats stats = stats_;
  if (!checkpoints_) return stats;
  const auto checkpoints = checkpoints_->stats();
  stats.checkpoints = checkpoints.published;
  stats.dropped_checkpoints = checkpoints.dropped;
  return stats;
}

// What rank 0 begins with the others take over from it, if they do not have it.
Status Session::Impl::begin_anew() {
  const auto base = membership_->restart_base();
  if (base && !checkpoints_) {
    return base::invalid_argument(
        "begin lineage {} of job '{}' from checkpoint '{}': this session has no folder of "
        "checkpoints; name the one that it lies in",
        world_.lineage, options_.membership.job, base->manifest);
  }
  holds_ = false;
  step_ = history_ = told_stable_ = 0;
  if (checkpoints_ && world_.rank != 0) return {};
  if (checkpoints_) {
    const auto loaded = checkpoints_->load(base, state_);
    if (!loaded.ok() || *loaded) is_pristine_ = false;
    if (!loaded.ok()) {
      FFDL_ASSIGN_OR_RETURN(const bool late, is_late());
      if (late) {
        return base::make_error(StatusCode::kWorldChanged, "begin generation {}: {}",
                                world_.generation, loaded.status().message());
      }
    }
    FFDL_RETURN_IF_ERROR(Status(loaded.status()));
    if (*loaded) return begin_from(**loaded);
  }
  if (is_pristine_) return {};
  FFDL_RETURN_IF_ERROR(trainable_.begin_anew());
  FFDL_RETURN_IF_ERROR(memory_.of_both->follow());
  FFDL_RETURN_IF_ERROR(restore_beside(beginning_));
  is_pristine_ = true;
  return {};
}

// Others may have gone on from the checkpoint without this member, and removed it meanwhile.
Result<bool> Session::Impl::is_late() {
  const Time deadline = runtime_.now() + options_.recovery_timeout;
  while (membership_->standing().ok() && runtime_.now() < deadline) {
    FFDL_RETURN_IF_ERROR(look());
    // What the membership has last seen may be as late as this member.
    const auto seen = read_job(store_, options_.membership.job);
    if (seen.ok()) return seen->world.generation > world_.generation;
    const Time soon = runtime_.now() + base::kStandingInterval;
    const auto next =
        membership_->wait_world_after(world_.generation, std::min<Time>(deadline, soon));
    if (next.ok()) return true;
  }
  return true;  // of no job any more, which is what it will hear next
}

Status Session::Impl::begin_from(const Checkpoint& checkpoint) {
  FFDL_RETURN_IF_ERROR(restore_beside(checkpoint.participants)
                           .with_context(fmt::format("load checkpoint '{}'", checkpoint.folder)));
  step_ = checkpoint.step;
  base::log_info("job '{}': lineage {} begins with step {} of checkpoint '{}'",
                 options_.membership.job, world_.lineage, step_, checkpoint.folder);
  return {};
}

}  // namespace ffdl
