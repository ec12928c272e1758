#pragma once

#include <algorithm>
#include <string>

#include "ffdl/membership.h"
#include "ffdl/types.h"

namespace ffdl::membership {

// Decides whether a member's life has reached its fence. The member looks at its clock all the
// time, so a gap between two looks is a standstill of its process or machine. Only the store knows
// whether others went on meanwhile. So after a standstill that reached the fence, the member has
// some time to ask the store, in which it does nothing else.
// Threads: one at a time. All times are those of Runtime::boottime().
class LifeClock {
 public:
  enum class Standing {
    kAlive,
    kAsks,    // it stood still: the store decides
    kFenced,  // stays so
  };

  // Begins the life with a renewal at `now`.
  LifeClock(const MembershipOptions& options, Time now);

  // Looks at the clock, and returns the standing at `now`. To be called at least once per
  // heartbeat.
  Standing look(Time now);
  // Records a renewal of the lease that began at `start`. One that began after the fence is too
  // late, unless the member asks. Returns true if it ends the asking.
  bool renew(Time start);

  // Returns when the present standing may change by itself: at the fence, or when the member has
  // asked for so long.
  Time next() const { return std::max(fence(), asks_until_); }
  // Returns the sum of all standstills, and of those since the last renewal.
  Duration stood_still() const { return stood_still_; }
  Duration stood_still_since_renewal() const { return stood_still_ - stood_still_before_; }
  // Returns when the last standstill ended; Time::min(): there was none.
  Time woke() const { return woke_; }
  // Says why there was no renewal for so long: the member stood still, or the store was silent.
  std::string why_not_renewed() const;

 private:
  Time fence() const { return renewed_ + fence_after_; }

  Duration standstill_min_;
  Duration fence_after_;
  Duration patience_;
  Time renewed_;
  Time looked_;
  Time asks_until_ = Time::min();
  Time woke_ = Time::min();
  Duration stood_still_{};
  Duration stood_still_before_{};  // until the last renewal
  bool is_fenced_ = false;
};

}  // namespace ffdl::membership
