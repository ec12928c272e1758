#pragma once

#include <memory>

#include "bindings/elastic/participant_handle.h"
#include "ffdl/tuning/batch_size.h"

namespace ffdl::python {

// The contents of a Python BatchSizeController.
struct BatchSizeControllerHandle final : ParticipantHandle {
  StepParticipant& participant() const override { return *batch; }
  const BatchSizeController& use() const {
    expect_own_turn();
    return *batch;
  }

  std::unique_ptr<BatchSizeController> batch;
};

}  // namespace ffdl::python
