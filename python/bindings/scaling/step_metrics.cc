#include "ffdl/tuning/step_metrics.h"

#include <pybind11/stl.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/elastic/participant_handle.h"
#include "bindings/scaling/steering.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

struct MeterHandle final : ParticipantHandle {
  explicit MeterHandle(JobStore given) : store(std::move(given)) {}
  ~MeterHandle() override {
    py::gil_scoped_release others_may_run;  // its task may be waiting for the store
    meter.reset();
  }
  StepParticipant& participant() const override { return *meter; }

  JobStore store;
  std::map<std::string, py::function> measures;  // destroyed after the meter, with the lock
  std::unique_ptr<StepMetrics> meter;
};

// Returns a number, or the value for None: this member reports nothing.
double number_or_nothing(const py::object& said) {
  if (said.is_none()) return std::numeric_limits<double>::quiet_NaN();
  const double value = PyFloat_AsDouble(said.ptr());
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

std::unique_ptr<MeterHandle> create_meter(py::object store, std::optional<std::string> job,
                                          uint64_t steps,
                                          std::map<std::string, py::function> metrics) {
  auto handle =
      std::make_unique<MeterHandle>(JobStore("measure steps", std::move(store), std::move(job)));
  StepMetricsOptions options{.job = handle->store.job, .steps = steps};
  handle->measures = std::move(metrics);
  for (const auto& [name, measure] : handle->measures) {
    options.metrics[name] = [raised = handle->raised, function = &measure] {
      double value = std::numeric_limits<double>::quiet_NaN();
      raised->in([&] { value = number_or_nothing((*function)()); });
      return value;
    };
  }
  handle->meter = take(StepMetrics::create(handle->store.store(), options));
  return handle;
}

}  // namespace

void bind_step_metrics(py::module_& module) {
  py::class_<MeterHandle, ParticipantHandle>(module, "StepMetrics",
                                             R"(Measures and publishes a session's steps.

    meter = ffdl.StepMetrics.create(metrics={"queue_depth": lambda: len(queue)})
    session = ffdl.Session.open(participants=[loader.ledger, meter], ...)

`ffdl run --policy`, `ffdl profile` and `ffdl autoscale` use its measurements. One thread at a
time, that of the session; never waits. The header is ffdl/tuning/step_metrics.h.)")
      .def_static("create", &create_meter, py::arg("store") = py::none(), py::kw_only(),
                  py::arg("job") = py::none(), py::arg("steps") = StepMetricsOptions{}.steps,
                  py::arg("metrics") = std::map<std::string, py::function>(),
                  R"(store: None for that of the job that `ffdl run` has started this process for.

steps: of one measurement.
metrics: functions by name, the same names at all members. Each is called once a step inside a call
of the session, and returns a number, or None if this member reports nothing. That call raises their
exceptions.

Raises InvalidArgument, and the errors of Store.)");
}

}  // namespace ffdl::python
