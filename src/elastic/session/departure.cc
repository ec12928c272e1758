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

Status Departure::wait_for_checkpoint(Time deadline, const std::function<bool()>& is_over) {
  while (runtime_.now() < deadline && life_.membership().life_status().ok()) {
    checkpoints_->progress().reset();
    if (is_over()) break;
    // Another member has found that the last checkpoint is published, or never will be.
    if (life_.membership().completion()) break;
    FFDL_RETURN_IF_ERROR(life_.look());
    const Time soon = runtime_.now() + base::kStandingInterval;
    checkpoints_->progress().wait_until(std::min<Time>(deadline, soon));
  }
  return {};
}

Status Departure::complete() {
  FFDL_RETURN_IF_ERROR(life_.look());
  FFDL_RETURN_IF_ERROR(held_.memory().follow());
  FFDL_ASSIGN_OR_RETURN(const uint64_t hash, held_.hash());
  const HeldState::Label& label = held_.label();
  const StateLabel end = {label.lineage, label.generation, label.step, hash};
  const Time deadline = runtime_.now() + options_.recovery_timeout;
  const bool has_started = completing_.start(
      "ffdl-complete",
      [this, end, deadline, &membership = life_.membership()](const StopToken& stop) {
        Status written;
        do {
          const Time soon = runtime_.now() + base::kStandingInterval;
          written = membership.complete(end, std::min<Time>(deadline, soon));
        } while (written.code() == StatusCode::kTimeout && runtime_.now() < deadline &&
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
  const Time patience = runtime_.now() + options_.recovery_timeout;
  if (checkpoints_ != nullptr) {
    FFDL_RETURN_IF_ERROR(
        wait_for_checkpoint(patience, [this] { return checkpoints_->is_written(); }));
  }
  return leave_or_be_needed(generation);
}

Result<bool> Departure::leave_or_be_needed(uint64_t generation) {
  Membership& membership = life_.membership();
  const Time deadline = runtime_.now() + options_.recovery_timeout;
  std::optional<Time> telling_until;
  while (true) {
    FFDL_RETURN_IF_ERROR(life_.look());
    const Time soon = runtime_.now() + base::kStandingInterval;
    Status left = membership.leave(std::min<Time>(deadline, soon));
    if (left.ok()) {
      life_.record_left();
      return true;
    }
    const Time now = runtime_.now();
    if (membership.has_ended_by_leaving()) {
      if (!telling_until) telling_until = now + options_.membership.fence_after;
      const bool may_pass =
          left.code() == StatusCode::kTimeout || left.code() == StatusCode::kUnavailable;
      if (may_pass && now < *telling_until) {
        runtime_.make_event()->wait_until(now + base::kStoreRetry);
        continue;
      }
      base::log_warning("{}; its lease ends instead", left.message());
      life_.record_left();
      return true;
    }
    if (left.code() != StatusCode::kTimeout || now >= deadline) return left;
    const World next = membership.world();
    if (next.generation > generation && next.rank >= 0) return false;
  }
}

}  // namespace ffdl::elastic
