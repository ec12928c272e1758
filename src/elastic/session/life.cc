#include "elastic/session/life.h"

#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"

namespace ffdl::elastic {

using base::MutexLock;

namespace {

// Returns true if an error with this code would repeat in every world.
bool ends_by_itself(StatusCode code) {
  return code == StatusCode::kInvalidArgument || code == StatusCode::kInternal ||
         code == StatusCode::kUnimplemented || code == StatusCode::kCorrupt;
}

}  // namespace

Life::Life(const SessionOptions& options, ParticipantList participants, Runtime& runtime)
    : options_(options), participants_(participants), runtime_(runtime) {}

Status Life::join(Store& store, Member self) {
  FFDL_ASSIGN_OR_RETURN(membership_,
                        Membership::join(store, runtime_, std::move(self), options_.membership));
  self_ = membership_->self();
  return {};
}

std::shared_ptr<Membership> Life::share_membership() {
  MutexLock lock(mutex_);
  return membership_;
}

bool Life::may_come_back() const {
  return options_.on_fence == SessionOptions::OnFence::kRejoin && over_.ok() &&
         membership_->is_fenced();
}

void Life::come_back(std::unique_ptr<Membership> next) {
  std::shared_ptr<Membership> ended = std::move(next);  // it is destroyed without the mutex
  self_ = ended->self();
  const Time before = awake_time();
  ahead_ = ended->awake_time() - before;
  MutexLock lock(mutex_);
  membership_.swap(ended);
  if (has_asked_to_leave_) membership_->ask_to_leave();
}

Status Life::look() {
  if (interrupted_.ok() && options_.communicator.interrupt_check)
    interrupted_ = options_.communicator.interrupt_check();
  return interrupted_;
}

Time Life::next_look() const {
  if (!options_.communicator.interrupt_check) return kNoDeadline;
  return runtime_.now() + base::kStandingInterval;
}

bool Life::is_final(const Status& status) {
  const bool is_life_over = !membership_->life_status().ok() && !may_come_back();
  return ends_by_itself(status.code()) || is_life_over || !look().ok() ||
         !participants_.are_alive() || base::launcher_watch().has_ended();
}

void Life::ask_to_leave() {
  MutexLock lock(mutex_);
  has_asked_to_leave_ = true;
  if (membership_) membership_->ask_to_leave();
}

void Life::record_left() {
  over_ = base::make_error(StatusCode::kCancelled,
                           "call a session: member '{}' has left job '{}'; open another",
                           options_.self.id, options_.membership.job);
}

// A consequence, such as a lost peer, is not the reason.
Status Life::end(Status why) {
  if (!ends_by_itself(why.code()) && interrupted_.ok()) {
    Status standing = may_come_back() ? Status() : membership_->life_status();
    // The communicator may have found the launcher's end before the membership's next heartbeat.
    if (standing.ok()) standing = base::launcher_watch().check("member '{}'", self_.id);
    if (!standing.ok()) why = std::move(standing);
  }
  over_ = why;
  return why;
}

// A member that still counts is left out sooner if it asks. After an interrupt (Ctrl-C) the wait is
// short.
void Life::leave() {
  const Duration patience =
      interrupted_.ok() ? 4 * options_.membership.lease : Duration(base::kStandingInterval);
  static_cast<void>(membership_->leave(runtime_.now() + patience).ok());
  end_membership();
}

void Life::end_membership() {
  std::shared_ptr<Membership> ended;
  {
    MutexLock lock(mutex_);
    ended.swap(membership_);
  }
}

}  // namespace ffdl::elastic
