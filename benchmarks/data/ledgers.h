#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ffdl/data/sample_ledger.h"

namespace ffdl::bench {

// Returns options for a thousand million samples, so that any cost that grows with the data set
// shows.
inline LedgerOptions large_ledger() {
  return {.samples = 1'000'000'000,
          .partition_samples = 4096,
          .epochs = 0,
          .shuffle = Shuffle::kSamples};
}

// The ledgers of all members of a job, one of which is measured, and their records.
class Ledgers {
 public:
  explicit Ledgers(int members, const LedgerOptions& options = large_ledger());

  SampleLedger& one() { return *ledgers_[0]; }
  // Takes up to `count` samples at each member and commits them. Returns the seconds that one
  // member's ledger needed, without the time of the others.
  Result<double> step(uint64_t count);
  // Takes and commits a separate count for each member; returns the seconds of one member's ledger.
  Result<double> step(std::span<const uint64_t> counts);
  // Returns the mean seconds of steps of 256 samples.
  Result<double> seconds_per_step(int steps);

 private:
  std::vector<std::unique_ptr<SampleLedger>> ledgers_{};
  std::vector<std::byte> records_{};
  uint64_t step_ = 0;
};

}  // namespace ffdl::bench
