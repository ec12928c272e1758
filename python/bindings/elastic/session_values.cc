#include <pybind11/native_enum.h>
#include <pybind11/stl.h>

#include "bindings/base/record.h"
#include "bindings/bindings.h"
#include "ffdl/membership.h"
#include "ffdl/session.h"

namespace py = pybind11;

namespace ffdl::python {

void bind_session_values(py::module_& module) {
  py::native_enum<StepResult>(module, "StepResult", "enum.Enum",
                              R"(The result of a step.

CONTINUE: it was applied. WORLD_CHANGED: it was applied, and the next one has other members.
RETRY_STEP: it was not applied: compute the gradients again, of the samples that are due now.
HEALED: the state is that of another member or of a checkpoint now, with the steps up to
Session.step: drop the gradients.
LEFT: this member is out of the job, because it asked to leave or another has taken over; the step
counts if Session.step has moved.)")
      .value("CONTINUE", StepResult::kContinue)
      .value("WORLD_CHANGED", StepResult::kWorldChanged)
      .value("RETRY_STEP", StepResult::kRetryStep)
      .value("HEALED", StepResult::kHealed)
      .value("LEFT", StepResult::kLeft)
      .finalize();
  py::native_enum<Recovery>(
      module, "Recovery", "enum.Enum",
      "The state from which the remaining members continue after a member dies without\n"
      "leaving.\n"
      "\n"
      "FORWARD: the newest step that any of them holds. CONSISTENT: the newest published\n"
      "checkpoint, at all of them; without one, the initial state.")
      .value("FORWARD", Recovery::kForward)
      .value("CONSISTENT", Recovery::kConsistent)
      .finalize();
  py::native_enum<OnLostState>(
      module, "OnLostState", "enum.Enum",
      "The fate of a job that lost its whole state: no member holds it, and no checkpoint was\n"
      "published. RESTART: begins again from the initial state, with a warning. FAIL: ends\n"
      "its members with Cancelled.")
      .value("RESTART", OnLostState::kRestart)
      .value("FAIL", OnLostState::kFail)
      .finalize();
  Record<SessionStats>(
      module, "SessionStats",
      R"(Statistics of one Session.

steps: applied here.
skipped_steps: of these, without an update because of NaN or Inf (NonFinite.SKIP).
retried_steps: steps that were not applied, and were repeated.
early_buckets: averaged before end_step() was called.
worlds: entered.
healed: how often this member replaced its state by another one.
bytes_received, bytes_sent: of state.
checkpoints: published, with a share of this member.
dropped_checkpoints: with a share of this member, but not published (checkpoint_status()).)")
      .field("steps", &SessionStats::steps)
      .field("skipped_steps", &SessionStats::skipped_steps)
      .field("retried_steps", &SessionStats::retried_steps)
      .field("early_buckets", &SessionStats::early_buckets)
      .field("worlds", &SessionStats::worlds)
      .field("healed", &SessionStats::healed)
      .field("bytes_received", &SessionStats::bytes_received)
      .field("bytes_sent", &SessionStats::bytes_sent)
      .field("checkpoints", &SessionStats::checkpoints)
      .field("dropped_checkpoints", &SessionStats::dropped_checkpoints);
}

}  // namespace ffdl::python
