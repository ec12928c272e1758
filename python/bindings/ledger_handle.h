#pragma once

#include <cstdint>
#include <memory>

#include "ffdl/partition_ledger.h"
#include "participant_handle.h"

namespace ffdl::python {

// What a Python PartitionLedger holds.
struct LedgerHandle final : ParticipantHandle {
  StepParticipant& participant() const override { return *ledger; }
  PartitionLedger& use() const {
    expect_own_turn();
    return *ledger;
  }

  SampleOrder order = SampleOrder::kOnDemand;
  uint64_t micro_batch_samples = 1;
  std::unique_ptr<PartitionLedger> ledger;
};

}  // namespace ffdl::python
