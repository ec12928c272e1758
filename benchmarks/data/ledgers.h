#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/partition_ledger.h"

namespace ffdl::bench {

// Of a thousand million samples, so that whatever grew with the data set would be seen.
inline PartitionLedgerOptions large_ledger() {
  return {.samples = 1'000'000'000,
          .partition_samples = 4096,
          .epochs = 0,
          .shuffle = Shuffle::kSamples};
}

// The ledgers of all members of a job, one of whom is measured, and what all of them say.
class Ledgers {
 public:
  explicit Ledgers(int members, const PartitionLedgerOptions& options = large_ledger());

  PartitionLedger& one() { return *ledgers_[0]; }
  // All take up to `count` samples and commit them. Seconds that one member's ledger needed for
  // it; the others' part is not in it.
  Result<double> step(uint64_t count);
  // The same with a count for each member.
  Result<double> step(std::span<const uint64_t> counts);
  // Mean seconds of such steps of 256 samples.
  Result<double> seconds_per_step(int steps);

 private:
  std::vector<std::unique_ptr<PartitionLedger>> ledgers_{};
  std::vector<std::byte> records_{};
  uint64_t step_ = 0;
};

}  // namespace ffdl::bench
