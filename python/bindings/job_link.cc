#include "ffdl/job_link.h"

#include <memory>
#include <string>
#include <utility>

#include "bindings.h"
#include "record.h"
#include "status.h"
#include "waiting.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// What a Python JobLink holds. Its end waits for a call to the store.
struct JobLinkHandle {
  explicit JobLinkHandle(std::unique_ptr<JobLink> opened) : link(std::move(opened)) {}
  ~JobLinkHandle() {
    without_lock([this] { link.reset(); });
  }
  JobLinkHandle(const JobLinkHandle&) = delete;
  JobLinkHandle& operator=(const JobLinkHandle&) = delete;

  std::unique_ptr<JobLink> link;
};

}  // namespace

void bind_job_link(py::module_& module) {
  Record<AdmittedJob>(module, "AdmittedJob",
                      R"(What the autoscaler has decided for a job.

workers: 0 if nothing yet, or it waits. batch: of a step with so many workers; 0: no wish.)")
      .field("workers", &AdmittedJob::workers)
      .field("batch", &AdmittedJob::batch);
  py::class_<JobLinkHandle>(
      module, "JobLink",
      R"(With which batch `ffdl autoscale` wants a job to train, heard beside the steps.

    link = ffdl.JobLink.open(store, "digits")
    if link.wanted.batch:
        batch.want(link.wanted.batch, link.wanted.workers)  # an AgreedBatch

wanted: an AdmittedJob. From any thread; never waits for the store.
The header is ffdl/job_link.h.)")
      .def_static(
          "open",
          [](Store& store, const std::string& job, double interval_s) {
            return std::make_unique<JobLinkHandle>(
                take(JobLink::open(store, system_runtime(), job, to_duration(interval_s))));
          },
          py::arg("store"), py::arg("job"), py::kw_only(), py::arg("interval_s") = 1.0,
          py::keep_alive<0, 1>(),
          "store: that of `ffdl autoscale`. Asks it once per `interval_s`. Raises "
          "InvalidArgument.")
      .def_property_readonly("wanted",
                             [](const JobLinkHandle& handle) { return handle.link->wanted(); });
}

}  // namespace ffdl::python
