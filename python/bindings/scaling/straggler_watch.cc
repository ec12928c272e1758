#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/bindings.h"
#include "bindings/elastic/participant_handle.h"
#include "bindings/scaling/steering.h"
#include "ffdl/tuning/stragglers.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

struct WatchHandle final : ParticipantHandle {
  ~WatchHandle() override {
    py::gil_scoped_release others_may_run;  // its task may be waiting for the store
    watch.reset();
  }
  StepParticipant& participant() const override { return *watch; }
  const StragglerWatch& use() const {
    expect_own_turn();
    return *watch;
  }

  std::optional<JobStore> store;  // if it replaces
  py::object on_straggler;        // destroyed after the watch, with the lock
  std::unique_ptr<StragglerWatch> watch;
};

StragglerOptions options_of(WatchHandle& handle, double factor, uint64_t steps,
                            const py::object& on_straggler) {
  StragglerOptions options;
  options.factor = factor;
  options.steps = steps;
  if (on_straggler.is_none()) return options;
  handle.on_straggler = on_straggler;
  options.on_straggler = [raised = handle.raised,
                          function = &handle.on_straggler](const Straggler& straggler) {
    raised->in([&] { (*function)(straggler); });
  };
  return options;
}

std::unique_ptr<WatchHandle> create_watch(double factor, uint64_t steps,
                                          const py::object& on_straggler) {
  auto handle = std::make_unique<WatchHandle>();
  handle->watch = take(StragglerWatch::create(options_of(*handle, factor, steps, on_straggler)));
  return handle;
}

std::unique_ptr<WatchHandle> create_replacing(py::object store, std::optional<std::string> job,
                                              double factor, uint64_t steps,
                                              const py::object& on_straggler) {
  auto handle = std::make_unique<WatchHandle>();
  handle->store.emplace("replace stragglers", std::move(store), std::move(job));
  handle->watch =
      take(StragglerWatch::create_replacing(handle->store->store(), handle->store->job,
                                            options_of(*handle, factor, steps, on_straggler)));
  return handle;
}

}  // namespace

void bind_straggler_watch(py::module_& module) {
  const StragglerOptions d;
  Record<Straggler>(module, "Straggler",
                    R"(A member for which the others wait.

member: a Member.
factor: its time for a sample over the median of all, the mean of `steps` steps.
steps: the number of consecutive steps in which it was slow.
step: the last of them.)")
      .field("member", &Straggler::member)
      .field("factor", &Straggler::factor)
      .field("steps", &Straggler::steps)
      .field("step", &Straggler::step);
  py::class_<WatchHandle, ParticipantHandle>(module, "StragglerWatch",
                                             R"(Finds members that compute slower than the others.

    watch = ffdl.StragglerWatch.create()
    session = ffdl.Session.open(participants=[ledger, watch], ...)

stragglers: the members that are slow now, a list of Straggler in the order of ranks, equal at
all members. The measure is the time from the end of a step to this member's contribution to the
next, for each of its samples. A change of the world restarts the measurement. `ffdl migrate`
replaces a member. One thread at a time, that of the session; never waits. The header is
ffdl/tuning/stragglers.h.)")
      .def_static("create", &create_watch, py::kw_only(), py::arg("factor") = d.factor,
                  py::arg("steps") = d.steps, py::arg("on_straggler") = py::none(),
                  R"(factor: a member is slow if it needs that many times the median; above 1.

steps: the number of consecutive steps. on_straggler: called once with each Straggler, inside a
call of the session, at every member alike. That call raises its exceptions.
Raises InvalidArgument.)")
      .def_static("create_replacing", &create_replacing, py::arg("store") = py::none(),
                  py::kw_only(), py::arg("job") = py::none(), py::arg("factor") = d.factor,
                  py::arg("steps") = d.steps, py::arg("on_straggler") = py::none(),
                  R"(Creates a watch that has another worker take a straggler's place.

store: None for that of the job that `ffdl run` has started this process for. It requests this as
`ffdl migrate` does, and needs an idle worker of `ffdl run --workers MIN:MAX`. factor, steps,
on_straggler: as of create(). Raises InvalidArgument, and the errors of Store.)")
      .def_property_readonly("stragglers",
                             [](const WatchHandle& handle) { return handle.use().stragglers(); });
}

}  // namespace ffdl::python
