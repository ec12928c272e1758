#include "membership/life_clock.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

namespace ffdl::membership {
namespace {

// The share of fence_after for which a member asks the store after a standstill, at least a lease.
constexpr int kAsksShare = 5;

int64_t in_seconds(Duration time) {
  return std::chrono::round<std::chrono::seconds>(time).count();
}

}  // namespace

LifeClock::LifeClock(const MembershipOptions& options, Time now)
    : standstill_min_(options.lease),
      fence_after_(options.fence_after),
      patience_(std::max<Duration>(options.fence_after / kAsksShare, options.lease)),
      renewed_(now),
      looked_(now) {}

LifeClock::Standing LifeClock::look(Time now) {
  const Time before = looked_;
  looked_ = std::max(looked_, now);
  if (now - before > standstill_min_) {
    stood_still_ += now - before;
    woke_ = now;
    if (now >= fence()) asks_until_ = now + patience_;
  }
  if (now < fence()) return is_fenced_ ? Standing::kFenced : Standing::kAlive;
  if (now < asks_until_ && !is_fenced_) return Standing::kAsks;
  is_fenced_ = true;
  return Standing::kFenced;
}

bool LifeClock::renew(Time start) {
  const bool asks = start < asks_until_;
  if (is_fenced_ || (start >= fence() && !asks)) return false;
  renewed_ = std::max(renewed_, start);
  if (looked_ >= fence()) return false;  // a renewal from before the standstill
  stood_still_before_ = stood_still_;
  asks_until_ = Time::min();
  return asks;
}

std::string LifeClock::why_not_renewed() const {
  const Duration stood = stood_still_since_renewal();
  if (2 * stood < fence_after_) {
    return fmt::format("the store did not answer for {} s", in_seconds(fence_after_));
  }
  return fmt::format("this process stood still for {} s", in_seconds(stood));
}

}  // namespace ffdl::membership
