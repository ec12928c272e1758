#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

// Which samples one worker computes its gradients from, whatever commits them: the steps of a
// session (PartitionLedger), a store (StoreLedger) or the pushes to a parameter server
// (SlotLedger). What a DataPipeline reads by. It knows
// samples as numbers and reads nothing. Threads: one at a time; samples() and sample_indices() from
// any.
class FFDL_API SampleLedger {
 public:
  static constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

  virtual ~SampleLedger() = default;

  // What the next gradient is computed from: up to `count` samples, the next of what this worker
  // holds. Asked again before they are committed it begins at the same sample.
  virtual Result<std::vector<SampleRange>> take(uint64_t count = kAll) = 0;
  // The samples that are committed next.
  virtual uint64_t taken() const = 0;
  // What this worker holds, in the order in which it will take it: what to read ahead.
  virtual const std::vector<SampleRange>& leases() const = 0;

  // Where leases last for one step: what this worker may hold in each of the `steps` after it, also
  // to read ahead. A hint, and nobody is held to it; fewer steps, or none, where nothing is known.
  virtual std::vector<std::vector<SampleRange>> forecast(size_t /*steps*/) { return {}; }

  virtual uint64_t samples() const = 0;    // of the data set
  virtual uint64_t epoch() const = 0;      // counts from 0; as many as there are when all is done
  virtual uint64_t committed() const = 0;  // samples of this epoch
  virtual bool is_done() const = 0;

  // Where the samples of ranges lie in the data set, in the order of training. Those of a range lie
  // in its partition, the numbers from partition * partition_samples on, or where samples are
  // shuffled within windows of partitions, in any partition of its window.
  // Errors: kInvalidArgument (a range that no ledger with these options gives).
  virtual Result<std::vector<uint64_t>> sample_indices(
      std::span<const SampleRange> ranges) const = 0;
};

}  // namespace ffdl
