#include <pybind11/stl.h>

#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/bindings.h"
#include "ffdl/launch/environment.h"

namespace py = pybind11;

namespace ffdl::python {

void bind_launch_environment(py::module_& module) {
  Record<JobEnvironment> job(
      module, "JobEnvironment",
      R"(The parameters of a worker from `ffdl run`. Session.open() reads them if it has no store.

store_url, store_secret: for open_store().
job: its name.
worker_id: of this worker, the same in each of its lives.
min_workers, max_workers: of the job.
takes_over_from: the worker that this one replaces; "": none.
ledger_log: a folder for logs of the ledgers' commits; "": none.
on_lost_state: an OnLostState.

docs/guide/launch.md has more.)");
  job.field("store_url", &JobEnvironment::store_url)
      .field("job", &JobEnvironment::job)
      .field("worker_id", &JobEnvironment::worker_id)
      .field("min_workers", &JobEnvironment::min_workers)
      .field("max_workers", &JobEnvironment::max_workers)
      .field("takes_over_from", &JobEnvironment::takes_over_from)
      .field("ledger_log", &JobEnvironment::ledger_log)
      .field("on_lost_state", &JobEnvironment::on_lost_state);
  // Not a field, so that no log shows it.
  job.type().def_readonly("store_secret", &JobEnvironment::store_secret);
  module.def(
      "job_environment", [] { return take(job_environment()); },
      "Returns the JobEnvironment of this process; None if FFDL_STORE is not set. Raises\n"
      "InvalidArgument (another variable is missing, or is no number).");
}

}  // namespace ffdl::python
