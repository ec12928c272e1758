#include "ps/segment/last_record.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "base/errors.h"

namespace ffdl::ps {
namespace {

// A reader that sees a word of a later record also sees, afterwards, that `pub` has advanced.
template <class T>
void put_word(T& word, T value) {
  std::atomic_ref(word).store(value, std::memory_order_release);  // pairs with get_word()
}
template <class T>
T get_word(T& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);  // pairs with put_word()
}

// Calls `take` with each word of a Meta in the segment and of one outside.
template <class Take>
void each_word(Meta& at, Meta& value, Take take) {
  take(at.sequence, value.sequence);
  take(at.owner, value.owner);
  take(at.mini_batches, value.mini_batches);
  take(at.skipped, value.skipped);
  take(at.samples, value.samples);
  take(at.base_version, value.base_version);
  take(at.clip_scale, value.clip_scale);
  take(at.ranges, value.ranges);
  take(at.touched, value.touched);
  take(at.form, value.form);
  take(at.checksum, value.checksum);
}

Meta get_meta(const Region& region, int l, uint64_t sequence) {
  Meta meta = {};
  each_word(region.meta(l, sequence), meta,
            [](auto& word, auto& value) { value = get_word(word); });
  return meta;
}

std::vector<TouchedRange> get_touched(const Region& region, int l, const Meta& meta) {
  std::vector<TouchedRange> touched;
  for (TouchedRange& range : region.touched(l, meta.sequence).first(meta.touched)) {
    touched.push_back({get_word(range.begin), get_word(range.end)});
  }
  return touched;
}

}  // namespace

void write_record(const Region& region, int l, Meta meta, std::span<const SampleRange> ranges,
                  std::span<const TouchedRange> touched) {
  const std::span<SampleRange> to = region.ranges(l, meta.sequence);
  const std::span<TouchedRange> touched_to = region.touched(l, meta.sequence);
  FFDL_CHECK(ranges.size() <= to.size() && touched.size() <= touched_to.size(),
             "the ranges of a publication fit into its record");
  for (size_t i = 0; i < ranges.size(); ++i) {
    put_word(to[i].partition, ranges[i].partition);
    put_word(to[i].begin, ranges[i].begin);
    put_word(to[i].end, ranges[i].end);
  }
  for (size_t i = 0; i < touched.size(); ++i) {
    put_word(touched_to[i].begin, touched[i].begin);
    put_word(touched_to[i].end, touched[i].end);
  }
  meta.ranges = static_cast<uint32_t>(ranges.size());
  meta.touched = static_cast<uint32_t>(touched.size());
  meta.checksum = meta_checksum(meta, ranges, touched);
  each_word(region.meta(l, meta.sequence), meta,
            [](auto& word, const auto& value) { put_word(word, value); });
}

Result<std::optional<LastRecord>> read_last_record(const Region& region, int l, uint64_t checked,
                                                   const std::function<void()>& meanwhile) {
  const std::optional<LastRecord> none;
  const std::atomic<uint64_t>& pub = region.learner(l).pub;
  LastRecord record;
  record.sequence = pub.load(std::memory_order_acquire);  // pairs with the publication
  if (record.sequence == 0) return none;
  // The buffer is written again for the publication after the next one.
  const Meta meta = get_meta(region, l, record.sequence);
  const bool is_of_a_cut =
      meta.sequence == 0 && region.folded(0, l).load(std::memory_order_acquire) == record.sequence;
  const bool owned = meta.owner == owner_of(region, l, record.sequence);
  const bool fits = meta.sequence == record.sequence && owned &&
                    meta.ranges <= region.config().ranges_max &&
                    meta.touched <= region.config().rows_max;
  std::vector<TouchedRange> touched;
  if (fits) {
    for (SampleRange& range : region.ranges(l, record.sequence).first(meta.ranges)) {
      record.ranges.push_back(
          {get_word(range.partition), get_word(range.begin), get_word(range.end)});
    }
    if (record.sequence != checked) touched = get_touched(region, l, meta);
  }
  if (meanwhile) meanwhile();
  if (pub.load(std::memory_order_relaxed) != record.sequence || is_of_a_cut) return none;
  const bool is_whole = fits && (record.sequence == checked ||
                                 meta.checksum == meta_checksum(meta, record.ranges, touched));
  if (is_whole) return std::optional(std::move(record));
  return base::make_error(StatusCode::kCorrupt,
                          "read a publication of learner {}: the record of gradient {} fails its "
                          "checksum, or names no owner of the slot; something wrote over the "
                          "segment: restore from a checkpoint",
                          l, record.sequence);
}

}  // namespace ffdl::ps
