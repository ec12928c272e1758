#include "elastic/session/departure.h"

#include <algorithm>
#include <optional>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"

namespace ffdl::elastic {

Departure::Departure(const SessionOptions& options, Life& life, const HeldState& held,
                     Checkpointer* checkpoints, Runtime& runtime)
    : options_(options),
      life_(life),
      held_(held),
      checkpoints_(checkpoints),
      runtime_(runtime),
      completing_(runtime) {}

WaitLimit Departure::begin_wait() const {
  return {life_, options_.recovery_timeout};
}

Status Departure::wait_for_checkpoint(const WaitLimit& limit,
                                      const std::function<bool()>& is_over) {
  while (!limit.is_over() && life_.membership().life_status().ok()) {
    checkpoints_->progress().reset();
    if (is_over()) break;
    // Another member has found that the last checkpoint is published, or never will be.
    if (life_.membership().completion()) break;
    FFDL_RETURN_IF_ERROR(life_.look());
    checkpoints_->progress().wait_until(runtime_.now() + base::kStandingInterval);
  }
  return {};
}

Status Departure::complete() {
  FFDL_RETURN_IF_ERROR(life_.look());
  FFDL_RETURN_IF_ERROR(held_.memory().follow());
  FFDL_ASSIGN_OR_RETURN(const uint64_t hash, held_.hash());
  const HeldState::Label& label = held_.label();
  const StateLabel end = {label.lineage, label.generation, label.step, hash};
  const bool has_started = completing_.start(
      "ffdl-complete",
      [this, end, limit = begin_wait(), &membership = life_.membership()](
          const StopToken& stop) {
        Status written;
        do {
          written = membership.complete(end, runtime_.now() + base::kStandingInterval);
        } while (written.code() == StatusCode::kTimeout && !limit.is_over() &&
                 !stop.stop_requested());
        return written;
      });
  if (!has_started) return base::no_thread("ffdl-complete");
  while (!completing_.wait_until(runtime_.now() + base::kStandingInterval)) {
    FFDL_RETURN_IF_ERROR(life_.membership().life_status());
    FFDL_RETURN_IF_ERROR(life_.look());
  }
  completing_.join();
  return completing_.outcome();
}

// Other members may have joined while the share was written.
Result<bool> Departure::leave(uint64_t generation) {
  if (checkpoints_ != nullptr) {
    FFDL_RETURN_IF_ERROR(
        wait_for_checkpoint(begin_wait(), [this] { return checkpoints_->is_written(); }));
  }
  return leave_or_be_needed(generation);
}

Result<bool> Departure::leave_or_be_needed(uint64_t generation) {
  Membership& membership = life_.membership();
  const WaitLimit limit = begin_wait();
  std::optional<WaitLimit> telling;
  while (true) {
    FFDL_RETURN_IF_ERROR(life_.look());
    Status left = membership.leave(runtime_.now() + base::kStandingInterval);
    if (left.ok()) {
      life_.record_left();
      return true;
    }
    if (membership.has_ended_by_leaving()) {
      if (!telling) telling.emplace(life_, options_.membership.fence_after);
      const bool may_pass =
          left.code() == StatusCode::kTimeout || left.code() == StatusCode::kUnavailable;
      if (may_pass && !telling->is_over()) {
        runtime_.make_event()->wait_until(runtime_.now() + base::kStoreRetry);
        continue;
      }
      base::log_warning("{}; its lease ends instead", left.message());
      life_.record_left();
      return true;
    }
    if (left.code() != StatusCode::kTimeout || limit.is_over()) return left;
    const World next = membership.world();
    if (next.generation > generation && next.rank >= 0) return false;
  }
}

}  // namespace ffdl::elastic
