#include "ps/last_record.h"

#include <algorithm>
#include <atomic>

namespace ffdl::ps {
namespace {

// A reader that sees a word of a later record also sees, afterwards, that `pub` has moved on.
template <class T>
void put_word(T& word, T value) {
  std::atomic_ref(word).store(value, std::memory_order_release);  // pairs with get_word()
}
template <class T>
T get_word(T& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);  // pairs with put_word()
}

}  // namespace

void write_ranges(const Region& region, int l, uint64_t sequence,
                  std::span<const SampleRange> ranges) {
  const std::span<SampleRange> to = region.ranges(l, sequence);
  for (size_t i = 0; i < ranges.size(); ++i) {
    put_word(to[i].partition, ranges[i].partition);
    put_word(to[i].begin, ranges[i].begin);
    put_word(to[i].end, ranges[i].end);
  }
  put_word(region.meta(l, sequence).ranges, static_cast<uint32_t>(ranges.size()));
}

std::optional<LastRecord> read_last_record(const Region& region, int l,
                                           const std::function<void()>& meanwhile) {
  const std::atomic<uint64_t>& pub = region.learner(l).pub;
  LastRecord record;
  record.sequence = pub.load(std::memory_order_acquire);  // pairs with the publication
  if (record.sequence == 0) return std::nullopt;
  // The buffer is written again for the publication after the next one.
  const uint32_t count = get_word(region.meta(l, record.sequence).ranges);
  const std::span<SampleRange> ranges = region.ranges(l, record.sequence);
  for (SampleRange& range : ranges.first(std::min<size_t>(count, ranges.size()))) {
    record.ranges.push_back(
        {get_word(range.partition), get_word(range.begin), get_word(range.end)});
  }
  if (meanwhile) meanwhile();
  if (pub.load(std::memory_order_relaxed) != record.sequence) return std::nullopt;
  return record;
}

}  // namespace ffdl::ps
