#include "base/errors.h"
#include "base/limits.h"
#include "elastic/session_impl.h"

// How a session ends, on the user's thread.
namespace ffdl {

using base::make_error;
using base::MutexLock;

Status Session::Impl::finish() {
  FFDL_RETURN_IF_ERROR(Status(over_));
  FFDL_RETURN_IF_ERROR(check_resumed("finish"));
  if (averaging_.noted_samples()) {
    return base::invalid_argument("finish: the gradients of a step are being averaged; end it");
  }
  const uint64_t lineage = world_.lineage;
  while (true) {
    averaging_.drop();
    Status settled = begin_step();
    if (settled.ok()) settled = exchange_messages(0, Step::kNone);
    if (settled.ok()) settled = become_active();
    if (settled.ok()) {
      tell_stable();
      // Others go on, such as those who came at the end. They have the state, and shall not wait
      // for a step of this member.
      if (!messages_.are_all_done()) abort_communicator();
      if (checkpoints_) FFDL_RETURN_IF_ERROR(wait_for_checkpoint(Until::kIdle));
      FFDL_ASSIGN_OR_RETURN(const bool has_left, leave_or_be_needed());
      if (has_left) return {};
    } else if (is_final(settled)) {
      return end_life(settled);
    }
    const auto entry = recover(settled.ok() ? Old::kKeep : Old::kAbort);
    if (!entry.ok()) return end_life(entry.status());
    if (*entry == Entry::kLeft) return {};
    if (world_.lineage != lineage) {
      return make_error(StatusCode::kWorldChanged,
                        "finish job '{}': a member died, and all went back to step {}; train on "
                        "from there, and finish again",
                        options_.membership.job, step_);
    }
  }
}

// As below, once its share of a checkpoint is written, in which time others may have come.
Result<bool> Session::Impl::leave() {
  if (checkpoints_) FFDL_RETURN_IF_ERROR(wait_for_checkpoint(Until::kWritten));
  return leave_or_be_needed();
}

// Whether it has left. If not, others have come who need its state: a world with it is forming.
Result<bool> Session::Impl::leave_or_be_needed() {
  const Time deadline = runtime_.now() + options_.recovery_timeout;
  while (true) {
    FFDL_RETURN_IF_ERROR(look());
    const Time soon = runtime_.now() + base::kStandingInterval;
    Status left = membership_->leave(std::min<Time>(deadline, soon));
    if (left.ok()) {
      has_left();
      return true;
    }
    if (left.code() != StatusCode::kTimeout || runtime_.now() >= deadline) return left;
    const World next = membership_->world();
    if (next.generation > world_.generation && next.rank >= 0) return false;
  }
}

void Session::Impl::has_left() {
  over_ = make_error(StatusCode::kCancelled, "member '{}' has left job '{}'", options_.self.id,
                     options_.membership.job);
}

Status Session::Impl::end_life(Status why) {
  over_ = why;
  abort_communicator();
  wait_for_giving();
  successor_.reset();
  if (checkpoints_) checkpoints_->stop();
  // One that still counts is left out sooner if it asks. Who pressed Ctrl-C does not wait for it.
  const Duration patience =
      looked_.ok() ? 4 * options_.membership.lease : Duration(base::kStandingInterval);
  static_cast<void>(membership_->leave(runtime_.now() + patience).ok());
  std::unique_ptr<Membership> ended;
  {
    MutexLock lock(mutex_);
    ended.swap(membership_);
  }
  return why;
}

}  // namespace ffdl
