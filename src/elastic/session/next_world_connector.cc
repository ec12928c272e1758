#include "elastic/session/next_world_connector.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"

namespace ffdl::elastic {

using base::MutexLock;

NextWorldConnector::NextWorldConnector(Membership& membership, Runtime& runtime, Options options,
                                       OnOver on_over)
    : membership_(membership),
      runtime_(runtime),
      options_(std::move(options)),
      on_over_(std::move(on_over)),
      changed_(runtime.make_event()),
      ends_(runtime.make_event()),
      task_(runtime.spawn("ffdl-successor", [this](const StopToken& stop) { run(stop); })),
      watching_(runtime.spawn("ffdl-world", [this](const StopToken& stop) { watch(stop); })) {}

NextWorldConnector::~NextWorldConnector() {
  ends_->set();
  watching_.reset();
}

// Reports whether the cause is this member: it lacks a descriptor, or its address is not of this
// host.
bool NextWorldConnector::is_own_fault(const Status& failed) const {
  if (failed.code() == StatusCode::kExhausted) return true;
  MutexLock lock(mutex_);
  return failed.code() == StatusCode::kInvalidArgument && reached_nobody_;
}

void NextWorldConnector::run(const StopToken& stop) {
  uint64_t known = 0;
  while (!stop.stop_requested()) {
    const auto world =
        membership_.wait_world_after(known, runtime_.now() + base::kStandingInterval);
    if (world.ok()) {
      known = world->generation;
      std::optional<Connected> old;
      {
        MutexLock lock(mutex_);
        known_ = known;
        without_me_ = world->rank < 0;
        old.swap(next_);
      }
      old.reset();
      if (world->rank >= 0) connect(*world, stop);
    } else if (world.status().code() != StatusCode::kTimeout) {
      changed_->set();  // the membership is over: waiting callers must see it
      return;
    }
    changed_->set();
  }
}

void NextWorldConnector::connect(const World& world, const StopToken& stop) {
  // A communicator may keep `look` and call it in its operations. It has an effect only until the
  // connection is made.
  const auto is_connecting = std::make_shared<std::atomic<bool>>(true);
  const auto look = [this, is_connecting, &stop, generation = world.generation]() -> Status {
    // relaxed: the connecting thread sets it, and only that thread looks until then
    if (!is_connecting->load(std::memory_order_relaxed)) return {};
    FFDL_RETURN_IF_ERROR(membership_.life_status());
    if (stop.stop_requested()) return base::make_error(StatusCode::kCancelled, "the session ends");
    if (membership_.world().generation == generation) return {};
    return base::make_error(StatusCode::kWorldChanged, "a newer world is forming");
  };
  std::vector<Member> unreached;
  const auto miss = [&](int rank) {
    unreached.push_back(world.members[static_cast<size_t>(rank)]);
  };
  auto made = options_.connect(world, runtime_.now() + options_.connect_timeout, {look, miss});
  const bool is_wanted = made.ok() || look().ok();
  is_connecting->store(false, std::memory_order_relaxed);
  if (made.ok()) {
    membership_.report_connected(world);
    MutexLock lock(mutex_);
    next_.emplace(Connected{world, std::move(made).value()});
    return;
  }
  // Reports members that it could not reach even if other members gave that world up before.
  if (is_wanted || !unreached.empty()) membership_.report_failure(world.generation, unreached);
  if (!is_wanted) return;
  base::log_warning("generation {} was not connected: {}", world.generation,
                    made.status().message());
  MutexLock lock(mutex_);
  reached_nobody_ = unreached.size() + 1 == world.members.size();
  failed_ =
      Status(made.status()).with_context(fmt::format("connect generation {}", world.generation));
}

void NextWorldConnector::watch(const StopToken& stop) {
  while (!stop.stop_requested()) {
    const Status standing = membership_.life_status();
    if (!standing.ok()) {
      on_over_(std::numeric_limits<uint64_t>::max(), standing);
      changed_->set();
      return;
    }
    World present;
    bool told = false;
    {
      MutexLock lock(mutex_);
      present = present_;
      told = told_over_;
    }
    if (!told && is_over(present, runtime_.now())) {
      on_over_(present.generation, base::make_error(StatusCode::kCancelled, "the world changes"));
      MutexLock lock(mutex_);
      told_over_ = told_over_ || present_.generation == present.generation;
    }
    ends_->wait_until(runtime_.now() + base::kStandingInterval);
  }
}

// Reports whether a world yields no more results. It is superseded if it never became active, or if
// its successor did. Its members may all be candidates then, while one of them waits for others
// that left. A member that the newer world leaves out ends its running collectives earlier, hence
// the delay. Once the job is done, a lost member ends the world even if no newer one forms.
bool NextWorldConnector::is_over(const World& world, Time now) {
  if (world.generation == 0) return false;
  const bool is_superseded =
      membership_.wait_active(world.generation, now).code() == StatusCode::kWorldChanged;
  const bool is_known = superseded_ && superseded_->generation == world.generation;
  if (!is_superseded) superseded_.reset();
  if (is_superseded && !is_known) superseded_ = {world.generation, now};
  if (superseded_ && now >= superseded_->since + 2 * base::kStandingInterval) return true;
  const auto end = membership_.completion();
  if (end && end->generation >= world.generation) return true;  // all its members have the end
  const bool may_go = end || membership_.world().generation != world.generation;
  return may_go &&
         std::any_of(world.members.begin(), world.members.end(), [&](const Member& member) {
           return !membership_.is_candidate(member) ||
                  membership_.has_gone_on(member, world.generation);
         });
}

uint64_t NextWorldConnector::ready() const {
  MutexLock lock(mutex_);
  if (next_) return next_->world.generation;
  return without_me_ && known_ > present_.generation ? known_ : 0;
}

void NextWorldConnector::set_present(const World& world) {
  MutexLock lock(mutex_);
  present_ = world;
  told_over_ = false;
}

std::optional<Connected> NextWorldConnector::take(uint64_t generation) {
  MutexLock lock(mutex_);
  std::optional<Connected> taken;
  if (next_ && next_->world.generation == generation) taken.swap(next_);
  return taken;
}

Result<Connected> NextWorldConnector::wait_after(uint64_t generation, Time deadline) {
  while (true) {
    changed_->reset();
    {
      MutexLock lock(mutex_);
      if (next_ && next_->world.generation > generation) {
        Connected taken = *std::move(next_);
        next_.reset();
        return taken;
      }
    }
    FFDL_RETURN_IF_ERROR(membership_.life_status());
    const Status failed = [this] {
      MutexLock lock(mutex_);
      return failed_;
    }();
    // The failure would repeat in every world, so that the other members would retry again and
    // again.
    if (generation == 0 && is_own_fault(failed)) return failed;
    const Time now = runtime_.now();
    if (now >= deadline) {
      return base::make_error(StatusCode::kTimeout,
                              "wait for a world after generation {}: none works{}{}", generation,
                              failed.ok() ? "" : "; ", failed.message());
    }
    changed_->wait_until(std::min<Time>(deadline, now + base::kStandingInterval));
  }
}

}  // namespace ffdl::elastic
