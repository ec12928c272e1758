#include "scaling/detect_straggler.h"

#include <algorithm>

namespace ffdl::scaling {
namespace {

double per_sample(const MemberTime& time) {
  return time.seconds / static_cast<double>(time.samples);
}

}  // namespace

void add_step(const SlowRules& rules, std::span<const MemberTime> times, std::span<SlowRun> runs) {
  std::vector<double> sorted;
  for (const MemberTime& time : times) {
    if (time.samples > 0) sorted.push_back(per_sample(time));
  }
  if (sorted.size() < 2) return;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double median = *middle;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    if (times[rank].samples == 0) continue;
    const double time = per_sample(times[rank]);
    if (median > 0 && time > rules.factor * median) {
      ++runs[rank].steps;
      runs[rank].factors += time / median;
    } else {
      runs[rank] = {};
    }
  }
}

}  // namespace ffdl::scaling
