#include "ps/learner/pending_gradient.h"

#include <algorithm>

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

std::vector<TouchedRange> PendingGradient::touched_with(std::span<const TouchedRange> more) const {
  if (mini_batches == 0) return {more.begin(), more.end()};
  return unite(touched, more);
}

void PendingGradient::store(const GradientBuffer& own, const IncomingGradient& incoming) {
  const float* values = incoming.values.data();
  const bool same_places = std::ranges::equal(touched, incoming.ranges);
  if (mini_batches > 0 && !same_places) {
    merge(own, incoming);
    return;
  }
  for (const TouchedRange& range : incoming.ranges) {
    const uint64_t count = range.end - range.begin;
    // The first mini-batch overwrites: the buffer contains an older gradient, or a dead learner's.
    if (mini_batches > 0) {
      own.add(range.begin, clip_scale, {values, count}, incoming.scale);
    } else if (!incoming.in_slot) {
      own.write(range.begin, {values, count});
    }
    values += count;
  }
  clip_scale = mini_batches > 0 ? 1 : incoming.scale;
  touched.assign(incoming.ranges.begin(), incoming.ranges.end());
}

// Adds in ranges that have values already, and overwrites elsewhere.
void PendingGradient::merge(const GradientBuffer& own, const IncomingGradient& incoming) {
  if (clip_scale != 1) {
    for (const TouchedRange& range : touched) {
      own.scale(range.begin, range.end - range.begin, clip_scale);
    }
    clip_scale = 1;
  }
  const float* values = incoming.values.data();
  for (const TouchedRange& range : incoming.ranges) {
    split(range, touched, [&](const TouchedRange& part, bool inside) {
      const uint64_t count = part.end - part.begin;
      if (inside) {
        own.add(part.begin, 1.0F, {values, count}, incoming.scale);
      } else {
        own.write(part.begin, {values, count});
        if (incoming.scale != 1) own.scale(part.begin, count, incoming.scale);
      }
      values += count;
    });
  }
  touched = unite(touched, incoming.ranges);
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
