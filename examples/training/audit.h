#pragma once

#include <cstdint>
#include <vector>

#include "ffdl/ps/parameter_server.h"

namespace training {

// The sums of the ledger's records over the partitions.
struct Ledger {
  uint64_t committed = 0;
  uint64_t repeated = 0;
  uint64_t missing = 0;
  uint64_t skipped = 0;  // mini-batches with NaN or Inf
};
Ledger sum_ledger(const ffdl::ParameterServerStats& stats);

// Checks that every training sample was used exactly once per epoch. Errors: kCorrupt, with the
// place.
ffdl::Status audit(const ffdl::ParameterServerStats& stats, uint64_t train_samples,
                   uint64_t epochs);

// Returns the median staleness of the gradients, from a histogram of powers of two: the low end of
// the median's interval.
uint64_t median_staleness(const ffdl::ParameterServerStats& stats);

}  // namespace training
