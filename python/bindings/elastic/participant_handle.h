#pragma once

#include <memory>

#include "bindings/base/raised.h"
#include "bindings/base/signals.h"
#include "bindings/base/status.h"
#include "ffdl/step_participant.h"

namespace ffdl::python {

// The contents of a Python StepParticipant.
struct ParticipantHandle {
  virtual ~ParticipantHandle() = default;
  virtual StepParticipant& participant() const = 0;

  // Raises an exception unless the caller may use the participant now. While the session is inside
  // a call, only the thread of that call may.
  void expect_own_turn() const {
    if (inside != nullptr && inside != this_thread()) {
      raise_invalid_argument(
          "use a participant of a session: another thread is inside a call of the session; leave "
          "it to that thread");
    }
  }

  // Shared with a callback, which may outlive this object.
  std::shared_ptr<Raised> raised = std::make_shared<Raised>();
  const void* inside = nullptr;  // the thread that is inside a call of the session
};

}  // namespace ffdl::python
