#include <memory>

#include "bindings/base/status.h"
#include "bindings/bindings.h"
#include "bindings/elastic/batch_size_controller_handle.h"
#include "ffdl/tuning/batch_size.h"

namespace py = pybind11;

namespace ffdl::python {
void bind_batch_size_controller(py::module_& module) {
  py::class_<BatchSizeControllerHandle, ParticipantHandle>(
      module, "BatchSizeController",
      R"(The batch size of a job. It may change during training, at one step for all members.

    batch = ffdl.BatchSizeController.create(64)
    session = ffdl.Session.open(participants=[batch, ledger], ...)
    ledger.take(batch.share)

samples: of the next step, over all members. share: the part of this member. The ledger has
SampleOrder.ON_DEMAND. A ledger with SampleOrder.GLOBAL takes the controller as an argument
(make_session_ledger) and follows it among the participants. One thread at a time, that of the
session, except want(); never waits. The header is ffdl/tuning/batch_size.h.)")
      .def_static(
          "create",
          [](uint64_t samples) {
            auto handle = std::make_unique<BatchSizeControllerHandle>();
            handle->batch = take(BatchSizeController::create(samples));
            return handle;
          },
          py::arg("samples"),
          "samples: of a step, until another batch size is agreed. Raises InvalidArgument.")
      .def(
          "want",
          [](const BatchSizeControllerHandle& handle, uint64_t samples, int members) {
            handle.batch->want(samples, members);
          },
          py::arg("samples"), py::arg("members"),
          "Requests `samples` samples per step once the job has `members` members. Among several\n"
          "requests that of the lowest rank counts. 0 samples: no request. From any thread.")
      .def_property_readonly(
          "samples", [](const BatchSizeControllerHandle& handle) { return handle.use().samples(); })
      .def_property_readonly(
          "share", [](const BatchSizeControllerHandle& handle) { return handle.use().share(); });
}

}  // namespace ffdl::python
