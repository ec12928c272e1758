#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings/base/record.h"
#include "bindings/bindings.h"
#include "bindings/scaling/steering.h"
#include "ffdl/scaling/elastic_policy.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// The contents of a Python PolicyFollower.
struct FollowerHandle {
  explicit FollowerHandle(JobStore given) : store(std::move(given)) {}
  ~FollowerHandle() { end(); }
  FollowerHandle(const FollowerHandle&) = delete;
  FollowerHandle& operator=(const FollowerHandle&) = delete;

  void end() {
    py::gil_scoped_release others_may_run;  // its task may be in the policy
    if (follower) {
      decisions = follower->decisions();
      changes = follower->changes();
    }
    follower.reset();
  }
  void stop() {
    end();
    raised->rethrow();
  }

  JobStore store;
  std::shared_ptr<Raised> raised =
      std::make_shared<Raised>();               // written by the policy, which outlives this object
  std::shared_ptr<const ElasticPolicy> policy;  // shared with its Python object
  std::unique_ptr<PolicyFollower> follower;
  uint64_t decisions = 0;  // after the end
  uint64_t changes = 0;
};

std::unique_ptr<FollowerHandle> start(const py::object& policy, py::object store,
                                      std::optional<std::string> job, const SteadyOptions& steady,
                                      double interval_s,
                                      const std::optional<std::filesystem::path>& log_file) {
  auto handle = std::make_unique<FollowerHandle>(
      JobStore("follow a policy", std::move(store), std::move(job)));
  handle->policy = policy_of(policy, handle->raised);
  PolicyFollowerOptions options;
  options.job = handle->store.job;
  options.steady = steady;
  options.interval = duration_of("interval_s", interval_s);
  if (log_file) options.log_file = log_file->string();
  handle->follower = take(without_lock([&] {
    return PolicyFollower::start(handle->store.store(), system_runtime(), *handle->policy, options);
  }));
  return handle;
}

}  // namespace

void bind_policy_follower(py::module_& module) {
  const PolicyFollowerOptions d;
  py::class_<FollowerHandle>(module, "PolicyFollower",
                             R"(Makes a running job follow a policy, until stop().

    with ffdl.PolicyFollower.start(mine, store, job="digits"):
        ...

Reads the reports of the job's StepMetrics, asks the policy, and has the job scaled as `ffdl
scale` does. It has one thread of its own, on which the policy is called. decisions: their number.
changes: the number that it requested from the job. The header is ffdl/scaling/elastic_policy.h.)")
      .def_static("start", &start, py::arg("policy"), py::arg("store") = py::none(), py::kw_only(),
                  py::arg("job") = py::none(), py::arg("steady") = SteadyOptions{},
                  py::arg("interval_s") = seconds_of(d.interval), py::arg("log_file") = py::none(),
                  R"(policy: an ElasticPolicy, or an object with decide(observation).

store: None for that of the job that `ffdl run` has started this process for.
steady: the limits of the policy; the job's MIN and MAX apply as well.
interval_s: the least time between decisions.
log_file: every decision is added to it.

Raises InvalidArgument, Unavailable, and the errors of Store.)")
      .def("stop", &FollowerHandle::stop, "Ends it; raises the exception of the policy.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](FollowerHandle& handle, const py::args&) { handle.stop(); })
      .def_property_readonly("decisions",
                             [](const FollowerHandle& handle) {
                               return handle.follower ? handle.follower->decisions()
                                                      : handle.decisions;
                             })
      .def_property_readonly("changes", [](const FollowerHandle& handle) {
        return handle.follower ? handle.follower->changes() : handle.changes;
      });
}

}  // namespace ffdl::python
