#include "elastic/successor.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"

namespace ffdl::elastic {

using base::MutexLock;

Successor::Successor(Membership& membership, Runtime& runtime, Options options,
                     std::function<void()> on_lost)
    : membership_(membership),
      runtime_(runtime),
      options_(std::move(options)),
      on_lost_(std::move(on_lost)),
      changed_(runtime.make_event()),
      task_(runtime.spawn("ffdl-successor", [this](const StopToken& stop) { run(stop); })) {}

Successor::~Successor() = default;

void Successor::run(const StopToken& stop) {
  uint64_t known = 0;
  while (!stop.stop_requested()) {
    const auto world =
        membership_.wait_world_after(known, runtime_.now() + base::kStandingInterval);
    look_for_losses();
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
      if (world->rank >= 0) connect(*world);
    } else if (world.status().code() != StatusCode::kTimeout) {
      changed_->set();  // the membership is over: who waits must see it
      return;
    }
    changed_->set();
  }
}

void Successor::connect(const World& world) {
  // A communicator may keep `look` and ask it in its operations; it counts until it is connected.
  const auto is_connecting = std::make_shared<std::atomic<bool>>(true);
  const auto look = [this, is_connecting, generation = world.generation]() -> Status {
    // relaxed: set by the thread that connects, which is the one that looks until then
    if (!is_connecting->load(std::memory_order_relaxed)) return {};
    look_for_losses();
    FFDL_RETURN_IF_ERROR(membership_.standing());
    if (membership_.world().generation == generation) return {};
    return base::make_error(StatusCode::kWorldChanged, "a newer world is forming");
  };
  auto made = options_.connect(world, runtime_.now() + options_.connect_timeout, look);
  const bool is_wanted = made.ok() || look().ok();
  is_connecting->store(false, std::memory_order_relaxed);
  if (made.ok()) {
    MutexLock lock(mutex_);
    next_.emplace(Connected{world, std::move(made).value()});
    return;
  }
  if (!is_wanted) return;
  base::log_warning("generation {} was not connected: {}", world.generation,
                    made.status().message());
  membership_.report_failure(world.generation);
}

void Successor::look_for_losses() {
  World present;
  {
    MutexLock lock(mutex_);
    if (told_loss_) return;
    present = present_;
  }
  const bool lost =
      std::any_of(present.members.begin(), present.members.end(),
                  [&](const Member& member) { return !membership_.is_candidate(member); });
  if (!lost || membership_.world().generation == present.generation) return;
  {
    MutexLock lock(mutex_);
    if (present_.generation != present.generation) return;
    told_loss_ = true;
  }
  on_lost_();
}

uint64_t Successor::ready() const {
  MutexLock lock(mutex_);
  if (next_) return next_->world.generation;
  return without_me_ && known_ > present_.generation ? known_ : 0;
}

void Successor::set_present(const World& world) {
  MutexLock lock(mutex_);
  present_ = world;
  told_loss_ = false;
}

std::optional<Connected> Successor::take(uint64_t generation) {
  MutexLock lock(mutex_);
  std::optional<Connected> taken;
  if (next_ && next_->world.generation == generation) taken.swap(next_);
  return taken;
}

Result<Connected> Successor::wait_after(uint64_t generation, Time deadline) {
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
    FFDL_RETURN_IF_ERROR(membership_.standing());
    const Time now = runtime_.now();
    if (now >= deadline) {
      return base::make_error(StatusCode::kTimeout,
                              "wait for a world after generation {}: none works", generation);
    }
    changed_->wait_until(std::min<Time>(deadline, now + base::kStandingInterval));
  }
}

}  // namespace ffdl::elastic
