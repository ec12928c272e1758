#include "ffdl/step_participant.h"

#include "bindings.h"
#include "participant_handle.h"

namespace ffdl::python {

void bind_step_participant(pybind11::module_& module) {
  pybind11::class_<ParticipantHandle>(module, "StepParticipant",
                                      R"(What is committed with each step of a Session.

A few bytes of each member travel with its gradients, and what a participant keeps of them is equal
at all members: PartitionLedger, GradientNoise, StragglerWatch. The header is
ffdl/step_participant.h.)");
}

}  // namespace ffdl::python
