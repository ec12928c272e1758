#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ffdl/status.h"
#include "ffdl/types.h"
#include "ps/segment/layout.h"

// Reads the samples that a slot's newest publication names. Any process may read them while the
// slot's owner publishes the next ones.
namespace ffdl::ps {

struct LastRecord {
  uint64_t sequence = 0;
  std::vector<SampleRange> ranges{};
};

// Writes the record of publication `meta.sequence` of slot l, with its checksum. The counts of
// ranges in `meta` are set here.
void write_record(const Region& region, int l, Meta meta, std::span<const SampleRange> ranges,
                  std::span<const TouchedRange> touched);

// Returns nullopt if slot l has published nothing, or published again while its record was read. A
// gradient is published once the one before is folded everywhere, so those samples are then in the
// ledger. A slot that carries the past of a cut has no record of it. `checked` is a sequence whose
// record was intact before; its checksum is not computed again. `meanwhile`, if set, runs after the
// reading and before the final check of the sequence.
// Errors: kCorrupt (the record is of another publication or owner, or fails its checksum).
Result<std::optional<LastRecord>> read_last_record(
    const Region& region, int l, uint64_t checked = 0,
    const std::function<void()>& meanwhile = nullptr);

}  // namespace ffdl::ps
