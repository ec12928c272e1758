#pragma once

#include <memory>

#include "ffdl/agreed_batch.h"
#include "participant_handle.h"

namespace ffdl::python {

// What a Python AgreedBatch holds.
struct AgreedBatchHandle final : ParticipantHandle {
  StepParticipant& participant() const override { return *batch; }
  const AgreedBatch& use() const {
    expect_own_turn();
    return *batch;
  }

  std::unique_ptr<AgreedBatch> batch;
};

}  // namespace ffdl::python
