#include "ffdl/launch_environment.h"

#include <pybind11/stl.h>

#include "bindings.h"
#include "record.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {

void bind_launch_environment(py::module_& module) {
  Record<JobEnvironment> job(
      module, "JobEnvironment",
      R"(What `ffdl run` tells a worker. Session.open() reads it where it is given no store.

store_url, store_secret: for open_store(). job: its name. worker_id: of this worker, the same in
each of its lives. min_workers, max_workers: of the job. takes_over_from: whose place it takes; "":
nobody's. ledger_log: a folder for logs of what ledgers commit; "": none. docs/launch.md.)");
  job.field("store_url", &JobEnvironment::store_url)
      .field("job", &JobEnvironment::job)
      .field("worker_id", &JobEnvironment::worker_id)
      .field("min_workers", &JobEnvironment::min_workers)
      .field("max_workers", &JobEnvironment::max_workers)
      .field("takes_over_from", &JobEnvironment::takes_over_from)
      .field("ledger_log", &JobEnvironment::ledger_log);
  // Not a field, so that no log shows it.
  job.type().def_readonly("store_secret", &JobEnvironment::store_secret);
  module.def(
      "job_environment", [] { return take(job_environment()); },
      "The JobEnvironment of this process; None where FFDL_STORE is not set.\n"
      "Raises InvalidArgument (another variable is missing, or is no number).");
}

}  // namespace ffdl::python
