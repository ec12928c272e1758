#include "data/formats/read_plan.h"

#include <algorithm>

namespace ffdl::data {
namespace {

bool covers(const SampleRange& block, uint32_t partition, uint64_t position) {
  return block.partition == partition && block.begin <= position && position < block.end;
}

}  // namespace

std::vector<PlannedBlock> plan_reads(std::span<const SampleRange> leases, uint64_t now,
                                     std::span<const SampleRange> known, const ReadRules& rules) {
  std::vector<PlannedBlock> plan;
  uint64_t planned = 0;  // samples of leases
  for (const SampleRange& lease : leases) {
    for (uint64_t at = lease.begin; at < lease.end;) {
      if (planned >= now && planned - now >= rules.ahead_samples) return plan;
      PlannedBlock block;
      uint64_t end = lease.end;
      for (size_t i = 0; i < known.size(); ++i) {
        if (covers(known[i], lease.partition, at)) block = {known[i], static_cast<int>(i)};
        if (known[i].partition == lease.partition && known[i].begin > at) {
          end = std::min(end, known[i].begin);
        }
      }
      if (block.known < 0) {
        if (end - at > 2 * rules.block_samples) end = at + rules.block_samples;
        block.range = {lease.partition, at, end};
      }
      // A lease may return to a block: half of a partition went to another worker and was returned.
      if (std::find(plan.begin(), plan.end(), block) == plan.end()) plan.push_back(block);
      end = std::min(block.range.end, lease.end);
      planned += end - at;
      at = end;
    }
  }
  return plan;
}

}  // namespace ffdl::data
