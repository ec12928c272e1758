#pragma once

#include <memory>

#include "base/mutex.h"
#include "elastic/step/participant_list.h"
#include "ffdl/membership.h"
#include "ffdl/runtime.h"
#include "ffdl/session.h"

namespace ffdl::elastic {

// The life of a session's member, and the cause that ended it.
// Threads: the session's thread; ask_to_leave() from any, status() and awake_time() also from a
// task that the session's thread has stopped before the life ends.
// Owns: the membership, until leave() or end_membership().
class Life {
 public:
  // Requires that the arguments outlive this object.
  Life(const SessionOptions& options, ParticipantList participants, Runtime& runtime);

  // Begins the life: joins the job as `self`.
  Status join(Store& store, Member self);
  Membership& membership() const { return *membership_; }
  const Member& self() const { return self_; }
  // Returns the membership for a task that may outlast this life.
  std::shared_ptr<Membership> share_membership();

  // Returns why the session is over, or why its membership is.
  Status status() const { return over_.ok() ? membership_->life_status() : over_; }
  // Returns why the session is over.
  const Status& over() const { return over_; }

  // Calls the user's interrupt_check. Its first error is returned by all later calls.
  Status look();
  // Returns the error that look() returned.
  const Status& interrupted() const { return interrupted_; }
  // Returns the time until which a wait lasts before look() is due again.
  Time next_look() const;

  // Returns true if this life ended at the fence, and the session may continue with the next one.
  bool may_come_back() const;
  // Returns Membership::awake_time(). It goes on in the next life.
  Time awake_time() const { return membership_->awake_time() - ahead_; }
  // Continues with the next life of this member.
  void come_back(std::unique_ptr<Membership> next);

  // Returns true if the session cannot continue in any world after this failure.
  bool is_final(const Status& status);

  void ask_to_leave();
  // Records that the member has left the job.
  void record_left();
  // Records the end of this life, and returns its reason: `why`, unless that is a consequence.
  Status end(Status why);
  // Asks the job to leave this member out, and ends the membership. Requires that no other thread
  // uses it. Blocks: for 4 leases at most.
  void leave();
  // Ends the membership without asking. Requires that no other thread uses it.
  void end_membership();
  // Reports whether leave() has ended the membership.
  bool has_ended() const { return membership_ == nullptr; }

 private:
  const SessionOptions& options_;
  const ParticipantList participants_;
  Runtime& runtime_;
  Member self_;
  Status over_;
  Status interrupted_;
  Duration ahead_{};  // of this life's awake_time(), before the first one's
  base::Mutex mutex_;
  // Both are changed with the mutex held, since ask_to_leave() runs on other threads.
  std::shared_ptr<Membership> membership_;
  bool has_asked_to_leave_ = false;
};

}  // namespace ffdl::elastic
