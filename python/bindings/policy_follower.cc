#include "ffdl/policy_follower.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings.h"
#include "record.h"
#include "steering.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// What a Python PolicyFollower holds.
struct FollowerHandle {
  explicit FollowerHandle(JobStore given) : store(std::move(given)) {}
  ~FollowerHandle() { end(); }
  FollowerHandle(const FollowerHandle&) = delete;
  FollowerHandle& operator=(const FollowerHandle&) = delete;

  void end() {
    py::gil_scoped_release others_may_run;  // its task may be in the policy
    if (follower) stats = follower->stats();
    follower.reset();
  }
  void stop() {
    end();
    raised->rethrow();
  }

  JobStore store;
  std::shared_ptr<Raised> raised =
      std::make_shared<Raised>();               // by the policy, which outlives this
  std::shared_ptr<const ElasticPolicy> policy;  // shared with its Python object
  std::unique_ptr<PolicyFollower> follower;
  PolicyFollowerStats stats;
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
  Record<PolicyFollowerStats> stats(
      module, "PolicyFollowerStats",
      "decisions of a PolicyFollower, and changes that it asked for.");
  stats.field("decisions", &PolicyFollowerStats::decisions)
      .field("changes", &PolicyFollowerStats::changes);
  py::class_<FollowerHandle>(module, "PolicyFollower",
                             R"(Makes a running job follow a policy, until stop().

    with ffdl.PolicyFollower.start(mine, store, job="digits"):
        ...

Reads what the job's StepMeter tells, asks the policy, and has the job scaled as `ffdl scale` does.
It has one thread of its own, on which the policy is called. stats: a PolicyFollowerStats. The
header is ffdl/policy_follower.h.)")
      .def_static("start", &start, py::arg("policy"), py::arg("store") = py::none(), py::kw_only(),
                  py::arg("job") = py::none(), py::arg("steady") = SteadyOptions{},
                  py::arg("interval_s") = seconds_of(d.interval), py::arg("log_file") = py::none(),
                  R"(policy: an ElasticPolicy, or an object with decide(observation, now_s).

store: None for that of the job that `ffdl run` has started this process for. steady: what it is
held to; the job's MIN and MAX hold as well. interval_s: decisions are no closer. log_file: every
decision is added to it. Raises InvalidArgument, Unavailable, and what Store does.)")
      .def("stop", &FollowerHandle::stop, "Ends it; raises what the policy has raised.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](FollowerHandle& handle, const py::args&) { handle.stop(); })
      .def_property_readonly("stats", [](const FollowerHandle& handle) {
        return handle.follower ? handle.follower->stats() : handle.stats;
      });
}

}  // namespace ffdl::python
