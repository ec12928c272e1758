#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ffdl/types.h"
#include "ps/layout.h"

// The samples that a slot's newest publication names, for others than its owner, who may publish
// the next ones meanwhile.
namespace ffdl::ps {

struct LastRecord {
  uint64_t sequence = 0;
  std::vector<SampleRange> ranges{};
};

// Into the record of a publication that is being made.
void write_ranges(const Region& region, int l, uint64_t sequence,
                  std::span<const SampleRange> ranges);

// Nothing: slot l has published nothing, or published again while its record was read. A gradient
// is published when the one before is folded everywhere, so the samples are in the ledger then.
std::optional<LastRecord> read_last_record(const Region& region, int l);

}  // namespace ffdl::ps
