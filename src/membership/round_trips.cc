#include "membership/round_trips.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace ffdl::membership {
namespace {

// Between two renewals a member reads and writes up to six times, and one renewal may be lost.
constexpr int kCallsOfLease = 12;

int64_t in_ms(Duration time) { return std::chrono::ceil<std::chrono::milliseconds>(time).count(); }

}  // namespace

void RoundTrips::add(Duration took) {
  newest_.push_back(took);
  if (newest_.size() > kKept) newest_.pop_front();
}

std::optional<std::string> RoundTrips::advice(Duration lease, bool has_ended) const {
  if (newest_.empty() || (!has_ended && newest_.size() < kJudged)) return std::nullopt;
  std::vector<Duration> sorted(newest_.begin(), newest_.end());
  std::ranges::sort(sorted);
  const Duration median = sorted[sorted.size() / 2];
  const Duration slowest = sorted.back();
  const Duration least = kCallsOfLease * median;
  const Duration good = least + 2 * slowest;
  if (lease >= (has_ended ? good : least)) return std::nullopt;
  constexpr int64_t kStepMs = 100;
  const int64_t good_ms = (in_ms(good) + kStepMs - 1) / kStepMs * kStepMs;
  return fmt::format(
      "calls to the store take {} ms (median of {}, the slowest {} ms), and the lease is {} ms: "
      "set MembershipOptions::lease (in Python lease_s) to {} ms or more at all members",
      in_ms(median), sorted.size(), in_ms(slowest), in_ms(lease), good_ms);
}

}  // namespace ffdl::membership
