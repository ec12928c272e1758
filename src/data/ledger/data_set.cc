#include "data/ledger/data_set.h"

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
  if (window_partitions > 1) return find_in_window(range, added);
  order_within(range.partition, count, epoch).at_each(range.begin % count, added);
  for (uint64_t& index : added) index += first;
}

void DataSet::find_in_window(const SampleRange& range, std::span<uint64_t> found) const {
  const uint64_t count = samples_of(range.partition);
  const uint64_t epoch = range.begin / count;
  const Permutation order = order_of(epoch);
  const uint64_t place = order.index_of(range.partition);
  const uint64_t first = place / window_partitions * window_partitions;
  const uint64_t last = first + std::min(window_partitions, partitions() - first) - 1;
  const uint64_t short_place = order.index_of(partitions() - 1);
  const bool has_short = first <= short_place && short_place <= last;
  const uint64_t with_last = has_short ? short_place : last;
  const auto exchanged = [&](uint64_t at) {
    return at == with_last ? last : at == last ? with_last : at;
  };
  const uint64_t window_samples = (last - first) * partition_samples +
                                  (has_short ? samples_of(partitions() - 1) : partition_samples);
  order_within(first / window_partitions, window_samples, epoch)
      .at_each((exchanged(place) - first) * partition_samples + range.begin % count, found);

  std::vector<uint64_t> owners(found.size());  // partitions
  for (size_t i = 0; i < found.size(); ++i) {
    owners[i] = exchanged(first + found[i] / partition_samples);
    found[i] %= partition_samples;
  }
  order.map_each(owners);
  for (size_t i = 0; i < found.size(); ++i) found[i] += owners[i] * partition_samples;
}

Permutation DataSet::order_of(uint64_t epoch) const {
  return {partitions(), mix(mix(seed) + epoch)};
}

Permutation DataSet::order_within(uint64_t partition_or_window, uint64_t count,
                                  uint64_t epoch) const {
  return {count, mix(mix(mix(seed) + epoch) + 1 + partition_or_window)};
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
