#include "membership/options.h"

#include "base/errors.h"
#include "base/limits.h"
#include "membership/membership_records.h"

namespace ffdl::membership {
namespace {

int64_t milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

Status check_options(const MembershipOptions& options) {
  if (!is_name(options.job)) {
    return base::invalid_argument(
        "join job '{}': it is not a valid name; use 1 to {} letters, digits and signs except '/'",
        options.job, base::kMemberIdMax);
  }
  const int most = static_cast<int>(base::kRanksMax);
  if (options.min_workers < 1 || options.max_workers < options.min_workers ||
      options.max_workers > most) {
    return base::invalid_argument(
        "join job '{}': min_workers is {}, max_workers {}; use 1 <= min_workers <= max_workers <= "
        "{}",
        options.job, options.min_workers, options.max_workers, most);
  }
  struct Order {
    bool holds;
    const char* rule;
    Duration shorter, longer;
  };
  const Order orders[] = {
      {options.heartbeat > Duration::zero(), "0 < heartbeat", {}, options.heartbeat},
      {options.gather >= Duration::zero(), "0 <= gather", {}, options.gather},
      // One heartbeat may be lost, and the next be late.
      {3 * options.heartbeat <= options.lease, "3 * heartbeat <= lease", options.heartbeat,
       options.lease},
      {options.lease < options.step_timeout, "lease < step_timeout", options.lease,
       options.step_timeout},
      {2 * options.lease <= options.fence_after, "2 * lease <= fence_after", options.lease,
       options.fence_after},
      // Clocks may differ by one part in fifty.
      {options.fence_after <= 50 * options.fence_margin, "fence_after <= 50 * fence_margin",
       options.fence_after, options.fence_margin},
      {options.lease <= base::kLeaseMax, "lease <= 24 h", options.lease, base::kLeaseMax},
  };
  for (const Order& order : orders) {
    if (order.holds) continue;
    return base::invalid_argument(
        "join job '{}': times of {} ms and {} ms do not satisfy '{}'; change the options in this "
        "rule as docs/reference/timeouts.md explains",
        options.job, milliseconds(order.shorter), milliseconds(order.longer), order.rule);
  }
  return {};
}

}  // namespace ffdl::membership
