#include "data/data_set.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace ffdl::data {

uint32_t DataSet::partitions() const {
  return static_cast<uint32_t>((samples - 1) / partition_samples + 1);
}

uint64_t DataSet::samples_of(uint32_t partition) const {
  return std::min(partition_samples, samples - partition * partition_samples);
}

SampleRange DataSet::use(uint32_t partition, uint64_t epoch) const {
  const uint64_t count = samples_of(partition);
  return {partition, epoch * count, (epoch + 1) * count};
}

bool DataSet::has(const SampleRange& range) const {
  if (range.partition >= partitions() || range.begin >= range.end) return false;
  const uint64_t count = samples_of(range.partition);
  return range.begin / count == (range.end - 1) / count;
}

uint32_t DataSet::partition_at(uint64_t place, uint64_t epoch) const {
  return static_cast<uint32_t>(shuffle == Shuffle::kNone ? place : order_of(epoch).at(place));
}

uint64_t DataSet::place_of(uint32_t partition, uint64_t epoch) const {
  return shuffle == Shuffle::kNone ? partition : order_of(epoch).index_of(partition);
}

uint64_t DataSet::samples_before(uint64_t places, uint64_t epoch) const {
  const uint32_t last = partitions() - 1;
  const uint64_t missing = partition_samples - samples_of(last);
  return places * partition_samples - (place_of(last, epoch) < places ? missing : 0);
}

void DataSet::add_indices(const SampleRange& range, std::vector<uint64_t>& indices) const {
  const uint64_t count = samples_of(range.partition);
  const uint64_t first = range.partition * partition_samples;
  const uint64_t epoch = range.begin / count;
  const size_t before = indices.size();
  indices.resize(before + static_cast<size_t>(range.end - range.begin));
  const std::span<uint64_t> added = std::span(indices).subspan(before);
  if (shuffle != Shuffle::kSamples) {
    std::iota(added.begin(), added.end(), first + range.begin % count);
    return;
  }
  order_within(range.partition, epoch).at_each(range.begin % count, added);
  for (uint64_t& index : added) index += first;
}

Permutation DataSet::order_of(uint64_t epoch) const {
  return {partitions(), mix(mix(seed) + epoch)};
}

Permutation DataSet::order_within(uint32_t partition, uint64_t epoch) const {
  return {samples_of(partition), mix(mix(mix(seed) + epoch) + 1 + partition)};
}

uint64_t DataSet::partitions_for(uint64_t count) const {
  return count == 0 || count == SampleLedger::kAll ? 0 : (count - 1) / partition_samples + 2;
}

std::vector<SampleRange> front_of(std::span<const SampleRange> ranges, uint64_t count,
                                  uint64_t ranges_max) {
  std::vector<SampleRange> front;
  for (SampleRange range : ranges) {
    range.end = std::min(range.end, range.begin + std::min(count, range.end - range.begin));
    if (range.begin == range.end || front.size() == ranges_max) break;
    count -= range.end - range.begin;
    front.push_back(range);
  }
  return front;
}

}  // namespace ffdl::data
