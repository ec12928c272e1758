#include "ffdl/straggler_watch.h"

#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "bindings.h"
#include "participant_handle.h"
#include "record.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

struct WatchHandle final : ParticipantHandle {
  StepParticipant& participant() const override { return *watch; }
  const StragglerWatch& use() const {
    expect_own_turn();
    return *watch;
  }

  std::unique_ptr<StragglerWatch> watch;
};

std::unique_ptr<WatchHandle> create_watch(double factor, uint64_t steps,
                                          const py::object& on_straggler) {
  auto handle = std::make_unique<WatchHandle>();
  StragglerWatchOptions options;
  options.factor = factor;
  options.steps = steps;
  if (!on_straggler.is_none()) {
    options.on_straggler = [raised = handle->raised, on_straggler](const Straggler& straggler) {
      raised->in([&] { on_straggler(straggler); });
    };
  }
  handle->watch = take(StragglerWatch::create(options));
  return handle;
}

}  // namespace

void bind_straggler_watch(py::module_& module) {
  const StragglerWatchOptions d;
  Record<Straggler>(module, "Straggler",
                    R"(A member for which the others wait.

member: a Member. factor: its time for a sample over the median of all, the mean of `steps` steps.
steps: that it has been so slow, without a break. step: the last of them.)")
      .field("member", &Straggler::member)
      .field("factor", &Straggler::factor)
      .field("steps", &Straggler::steps)
      .field("step", &Straggler::step);
  py::class_<WatchHandle, ParticipantHandle>(module, "StragglerWatch",
                                             R"(Finds members that compute slower than the others.

    watch = ffdl.StragglerWatch.create()
    session = ffdl.Session.open(participants=[ledger, watch], ...)

stragglers: those who are slow now, a list of Straggler in the order of ranks, equal at all members.
What counts is the time from the end of a step to this member's contribution to the next, for each
of its samples. A change of the world begins anew. `ffdl migrate` replaces a member.
One thread at a time, that of the session; never waits. The header is ffdl/straggler_watch.h.)")
      .def_static("create", &create_watch, py::kw_only(), py::arg("factor") = d.factor,
                  py::arg("steps") = d.steps, py::arg("on_straggler") = py::none(),
                  R"(factor: slow is who needs so many times the median; above 1.

steps: in so many steps one after another. on_straggler: called once with each Straggler, inside a
call of the session, at every member alike. What it raises comes out of that call.
Raises InvalidArgument.)")
      .def_property_readonly("stragglers",
                             [](const WatchHandle& handle) { return handle.use().stragglers(); });
}

}  // namespace ffdl::python
