#include <chrono>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "membership/membership_impl.h"

// The part of Membership that watches the own clock: the fence, and standstills of this process.
namespace ffdl {

using base::make_error;
using base::MutexLock;
using membership::LifeClock;

Status Membership::Impl::life_status() const {
  std::shared_ptr<Event> answered;
  bool is_alive = false;
  while (!is_alive) {
    Duration rest{};
    {
      MutexLock lock(mutex_);
      const Time boottime = runtime_.boottime();
      const LifeClock::Standing standing = clock_.look(boottime);
      is_alive = over_.ok() && standing == LifeClock::Standing::kAlive;
      if (is_alive || !over_.ok() || standing == LifeClock::Standing::kFenced) break;
      if (!answered) answered = runtime_.make_event();
      answered->reset();
      waiters_.insert(answered);
      rest = clock_.next() - boottime;
    }
    answered->wait_until(runtime_.now() + rest);
  }
  if (answered) {
    MutexLock lock(mutex_);
    waiters_.erase(answered);
  }
  return is_alive ? Status() : life_so_far();
}

Status Membership::Impl::life_so_far() const {
  std::string why;
  {
    MutexLock lock(mutex_);
    if (!over_.ok()) return over_;
    if (clock_.look(runtime_.boottime()) != LifeClock::Standing::kFenced) return {};
    why = clock_.why_not_renewed();
  }
  end_at_fence(why + ", so other members may continue without this member");
  MutexLock lock(mutex_);
  return over_;
}

void Membership::Impl::end_at_fence(std::string_view why) const {
  constexpr bool is_fence = true;
  end(make_error(StatusCode::kCancelled, "member '{}': {}; join again", self_.id, why), is_fence);
}

bool Membership::Impl::is_fenced() const {
  const bool is_over = !life_status().ok();
  MutexLock lock(mutex_);
  return is_over && is_fenced_;
}

Time Membership::Impl::awake_time() const {
  MutexLock lock(mutex_);
  const Time now = runtime_.boottime();
  static_cast<void>(clock_.look(now));
  return now - clock_.stood_still();
}

void Membership::Impl::watch_clock(const StopToken& stop) {
  while (!stop.stop_requested()) {
    {
      MutexLock lock(mutex_);
      static_cast<void>(clock_.look(runtime_.boottime()));
    }
    clock_over_->wait_until(runtime_.now() + options_.heartbeat);
  }
}

// Lets a standstill of this process count against no other member.
void Membership::Impl::note_standstill() {
  bool asks = false;
  Duration stood{};
  {
    MutexLock lock(mutex_);
    asks = clock_.look(runtime_.boottime()) == LifeClock::Standing::kAsks;
    stood = clock_.stood_still() - forgiven_;
  }
  if (asks) next_beat_ = runtime_.now();
  if (stood == Duration::zero()) return;
  forgiven_ += stood;
  if (!asks && stood > base::kStandstillToLog) {
    base::log_warning("member '{}': this process stood still for {} s", self_.id,
                      std::chrono::round<std::chrono::seconds>(stood).count());
  }
  sightings_.forgive(stood, runtime_.now());
}

std::optional<Time> Membership::Impl::end_of_patience() const {
  const Time boottime = runtime_.boottime();
  MutexLock lock(mutex_);
  static_cast<void>(clock_.look(boottime));  // no other thread may have looked since
  const Time woke = clock_.woke();
  if (woke == Time::min() || boottime >= woke + options_.lease) return std::nullopt;
  return runtime_.now() + (woke + options_.lease - boottime);
}

Membership::Impl::Renewal Membership::Impl::begin_renewal() const {
  const Time start = runtime_.boottime();
  MutexLock lock(mutex_);
  return {start, view_.record.generation};
}

void Membership::Impl::note_renewal(const Renewal& renewal) {
  Duration stood{};
  {
    MutexLock lock(mutex_);
    renewed_generation_ = renewal.generation;
    stood = clock_.stood_still_since_renewal();
    if (!clock_.renew(renewal.start)) return;
  }
  base::log_warning(
      "member '{}': this process stood still for {} s; no other member went on without it, so it "
      "goes on",
      self_.id, std::chrono::round<std::chrono::seconds>(stood).count());
  wake();
}

}  // namespace ffdl
