#pragma once

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

  std::unique_ptr<PartitionLedger> ledger;
};

}  // namespace ffdl::python
