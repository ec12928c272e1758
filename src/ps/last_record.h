#pragma once

#include <cstdint>
#include <functional>
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
// `meanwhile`, if given, runs between the reading and the look whether it is still the last one.
std::optional<LastRecord> read_last_record(const Region& region, int l,
                                           const std::function<void()>& meanwhile = nullptr);

}  // namespace ffdl::ps
