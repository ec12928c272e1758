#include "ffdl/step_meter.h"

#include <pybind11/stl.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bindings.h"
#include "participant_handle.h"
#include "steering.h"

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
  std::map<std::string, py::function> measures;  // gone after the meter, with the lock
  std::unique_ptr<StepMeter> meter;
};

// A number, or None: this member says nothing.
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
  StepMeterOptions options{.job = handle->store.job, .steps = steps};
  handle->measures = std::move(metrics);
  for (const auto& [name, measure] : handle->measures) {
    options.metrics[name] = [raised = handle->raised, function = &measure] {
      double value = std::numeric_limits<double>::quiet_NaN();
      raised->in([&] { value = number_or_nothing((*function)()); });
      return value;
    };
  }
  handle->meter = take(StepMeter::create(handle->store.store(), options));
  return handle;
}

}  // namespace

void bind_step_meter(py::module_& module) {
  py::class_<MeterHandle, ParticipantHandle>(module, "StepMeter",
                                             R"(Measures a session's steps, and lets others know.

    meter = ffdl.StepMeter.create(metrics={"queue_depth": lambda: len(queue)})
    session = ffdl.Session.open(participants=[loader.ledger, meter], ...)

Its measurements are what `ffdl run --policy`, `ffdl profile` and `ffdl autoscale` go by. One thread
at a time, that of the session; never waits. The header is ffdl/step_meter.h.)")
      .def_static("create", &create_meter, py::arg("store") = py::none(), py::kw_only(),
                  py::arg("job") = py::none(), py::arg("steps") = StepMeterOptions{}.steps,
                  py::arg("metrics") = std::map<std::string, py::function>(),
                  R"(store: None for that of the job that `ffdl run` has started this process for.

steps: of one measurement. metrics: functions by name, the same names at all members, asked once a
step inside a call of the session; each returns a number, or None where this member says nothing.
What they raise comes out of that call. Raises InvalidArgument, and what Store does.)");
}

}  // namespace ffdl::python
