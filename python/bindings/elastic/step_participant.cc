#include "ffdl/step_participant.h"

#include "bindings/bindings.h"
#include "bindings/elastic/participant_handle.h"

namespace ffdl::python {

void bind_step_participant(pybind11::module_& module) {
  pybind11::class_<ParticipantHandle>(module, "StepParticipant",
                                      R"(An object with data that each step of a Session commits.

A few bytes of each member are sent with its gradients. The data that a participant keeps of them is
equal at all members. A session's SampleLedger, GradientNoise and StragglerWatch are participants.
The header is ffdl/step_participant.h.)");
}

}  // namespace ffdl::python
