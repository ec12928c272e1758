#include "ffdl/agreed_batch.h"

#include <memory>

#include "agreed_batch_handle.h"
#include "bindings.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
void bind_agreed_batch(py::module_& module) {
  py::class_<AgreedBatchHandle, ParticipantHandle>(
      module, "AgreedBatch",
      R"(The batch of a job, which may be changed while it trains: at one step for all members.

    batch = ffdl.AgreedBatch.create(64)
    session = ffdl.Session.open(participants=[batch, ledger], ...)
    ledger.take(batch.share)

samples: of the next step, over all members. share: of them, this member's.
The ledger is one on demand; one of SampleOrder.GLOBAL is given the batch (PartitionLedger.create)
and stands after it among the participants. One thread at a time, that of the session, but want();
never waits.
The header is ffdl/agreed_batch.h.)")
      .def_static(
          "create",
          [](uint64_t samples) {
            auto handle = std::make_unique<AgreedBatchHandle>();
            handle->batch = take(AgreedBatch::create(samples));
            return handle;
          },
          py::arg("samples"),
          "samples: of a step, until another batch is agreed. Raises "
          "InvalidArgument.")
      .def(
          "want",
          [](const AgreedBatchHandle& handle, uint64_t samples, int members) {
            handle.batch->want(samples, members);
          },
          py::arg("samples"), py::arg("members"),
          "As soon as the job has so many members a step shall have so many samples. Of several\n"
          "who want something the lowest rank is heard. 0 samples: nothing. From any thread.")
      .def_property_readonly("samples",
                             [](const AgreedBatchHandle& handle) { return handle.use().samples(); })
      .def_property_readonly("share",
                             [](const AgreedBatchHandle& handle) { return handle.use().share(); });
}

}  // namespace ffdl::python
