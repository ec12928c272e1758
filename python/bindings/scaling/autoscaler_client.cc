#include <memory>
#include <string>
#include <utility>

#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "ffdl/cluster/autoscaler.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// The contents of a Python AutoscalerClient. The destructor waits for a call to the store.
struct AutoscalerClientHandle {
  explicit AutoscalerClientHandle(std::unique_ptr<AutoscalerClient> opened)
      : link(std::move(opened)) {}
  ~AutoscalerClientHandle() {
    without_lock([this] { link.reset(); });
  }
  AutoscalerClientHandle(const AutoscalerClientHandle&) = delete;
  AutoscalerClientHandle& operator=(const AutoscalerClientHandle&) = delete;

  std::unique_ptr<AutoscalerClient> link;
};

}  // namespace

void bind_autoscaler_client(py::module_& module) {
  Record<JobAllocation>(module, "JobAllocation",
                        R"(The decision of the autoscaler for a job.

workers: 0 if there is no decision yet, or the job waits.
batch: the batch size of a step with that many workers; 0: no request.
is_dropped: the job is rejected for good.
reason: of the decision.)")
      .field("workers", &JobAllocation::workers)
      .field("batch", &JobAllocation::batch)
      .field("is_dropped", &JobAllocation::is_dropped)
      .field("reason", &JobAllocation::reason);
  py::class_<AutoscalerClientHandle>(
      module, "AutoscalerClient",
      R"(Receives the batch size that `ffdl autoscale` requests for a job, beside the steps.

    link = ffdl.AutoscalerClient.open(store, "digits")
    if link.wanted.batch:
        batch.want(link.wanted.batch, link.wanted.workers)  # a BatchSizeController

wanted: a JobAllocation. From any thread; never waits for the store. The header is
ffdl/cluster/autoscaler.h.)")
      .def_static(
          "open",
          [](Store& store, const std::string& job, double interval_s) {
            return std::make_unique<AutoscalerClientHandle>(take(
                AutoscalerClient::open(store, system_runtime(), job, to_duration(interval_s))));
          },
          py::arg("store"), py::arg("job"), py::kw_only(), py::arg("interval_s") = 1.0,
          py::keep_alive<0, 1>(),
          "store: that of `ffdl autoscale`. Reads it once per `interval_s`. Raises\n"
          "InvalidArgument.")
      .def_property_readonly(
          "wanted", [](const AutoscalerClientHandle& handle) { return handle.link->wanted(); });
}

}  // namespace ffdl::python
