#include "ps/pending_gradient.h"

namespace ffdl::ps {
namespace {

bool continues(const SampleRange& last, const SampleRange& named) {
  return last.partition == named.partition && last.end == named.begin;
}

}  // namespace

bool PendingGradient::has_room_for(std::span<const SampleRange> named) const {
  size_t used = ranges.size();
  const SampleRange* last = ranges.empty() ? nullptr : &ranges.back();
  for (const SampleRange& range : named) {
    if (range.begin == range.end) continue;
    if (last == nullptr || !continues(*last, range)) ++used;
    last = &range;
  }
  return used <= ranges_max_;
}

void PendingGradient::add(std::span<const SampleRange> named, uint64_t version, bool skip) {
  if (empty()) base_version = version;
  ++(skip ? skipped : mini_batches);
  for (const SampleRange& range : named) {
    if (range.begin == range.end) continue;
    samples += range.end - range.begin;
    if (!ranges.empty() && continues(ranges.back(), range)) {
      ranges.back().end = range.end;
    } else {
      ranges.push_back(range);
    }
  }
}

}  // namespace ffdl::ps
