#include "ffdl/replace_stragglers.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings.h"
#include "participant_handle.h"
#include "steering.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

struct ReplacementHandle final : ParticipantHandle {
  explicit ReplacementHandle(JobStore given) : store(std::move(given)) {}
  ~ReplacementHandle() override {
    py::gil_scoped_release others_may_run;  // its task may be waiting for the store
    replacement.reset();
  }
  StepParticipant& participant() const override { return *replacement; }
  const StragglerReplacement& use() const {
    expect_own_turn();
    return *replacement;
  }

  JobStore store;
  py::object on_straggler;  // gone after the replacement, with the lock
  std::unique_ptr<StragglerReplacement> replacement;
};

std::unique_ptr<ReplacementHandle> create_replacement(py::object store,
                                                      std::optional<std::string> job, double factor,
                                                      uint64_t steps,
                                                      const py::object& on_straggler) {
  auto handle = std::make_unique<ReplacementHandle>(
      JobStore("replace stragglers", std::move(store), std::move(job)));
  StragglerReplacementOptions options;
  options.job = handle->store.job;
  options.watch.factor = factor;
  options.watch.steps = steps;
  if (!on_straggler.is_none()) {
    handle->on_straggler = on_straggler;
    options.watch.on_straggler = [raised = handle->raised,
                                  function = &handle->on_straggler](const Straggler& slow) {
      raised->in([&] { (*function)(slow); });
    };
  }
  handle->replacement = take(StragglerReplacement::create(handle->store.store(), options));
  return handle;
}

}  // namespace

void bind_replace_stragglers(py::module_& module) {
  const StragglerWatchOptions d;
  py::class_<ReplacementHandle, ParticipantHandle>(
      module, "StragglerReplacement",
      R"(A StragglerWatch that has another worker take a straggler's place.

    replacement = ffdl.StragglerReplacement.create()
    session = ffdl.Session.open(participants=[ledger, replacement], ...)

It asks as `ffdl migrate` does, and needs an idle worker of `ffdl run --workers MIN:MAX`.
stragglers: as of StragglerWatch. One thread at a time, that of the session; never waits. The
header is ffdl/replace_stragglers.h.)")
      .def_static("create", &create_replacement, py::arg("store") = py::none(), py::kw_only(),
                  py::arg("job") = py::none(), py::arg("factor") = d.factor,
                  py::arg("steps") = d.steps, py::arg("on_straggler") = py::none(),
                  R"(store: None for that of the job that `ffdl run` has started this process for.

factor, steps, on_straggler: as of StragglerWatch. Raises InvalidArgument, and what Store does.)")
      .def_property_readonly(
          "stragglers", [](const ReplacementHandle& handle) { return handle.use().stragglers(); });
}

}  // namespace ffdl::python
