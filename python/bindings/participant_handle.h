#pragma once

#include <memory>

#include "ffdl/step_participant.h"
#include "raised.h"
#include "signals.h"
#include "status.h"

namespace ffdl::python {

// What a Python StepParticipant holds.
struct ParticipantHandle {
  virtual ~ParticipantHandle() = default;
  virtual StepParticipant& participant() const = 0;

  // For the thread whose turn it is: that of the session while it is inside a call.
  void expect_own_turn() const {
    if (inside != nullptr && inside != this_thread()) {
      raise_invalid_argument(
          "use a participant of a session: another thread is inside a call of the session; leave "
          "it to that thread");
    }
  }

  // By a callback, which may outlive this.
  std::shared_ptr<Raised> raised = std::make_shared<Raised>();
  const void* inside = nullptr;  // the thread that is inside a call of the session
};

}  // namespace ffdl::python
