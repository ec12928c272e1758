#include "ffdl/ps/averaging_learner.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/base/arrays.h"
#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "bindings/ps/server_handle.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// The contents of a Python AveragingLearner.
struct AveragingHandle {
  explicit AveragingHandle(std::unique_ptr<AveragingLearner> attached)
      : learner(std::move(attached)) {}
  ~AveragingHandle() {
    py::gil_scoped_release others_may_run;
    learner.reset();
  }
  AveragingHandle(const AveragingHandle&) = delete;
  AveragingHandle& operator=(const AveragingHandle&) = delete;

  std::unique_ptr<AveragingLearner> learner;
  bool busy = false;
};

// Calls `call(learner, deadline)`, which waits, for the one thread that may use the learner.
template <class Call>
auto use_until(AveragingHandle& handle, double timeout_s, Call&& call) {
  const Exclusive one_thread(handle.busy);
  return wait(timeout_s, [&](Time deadline) { return call(*handle.learner, deadline); });
}

// Opens a learner; `server` is the name of the server, or the object.
template <class Server>
std::unique_ptr<AveragingHandle> attach(const Server& server, double timeout_s,
                                        const UpdateRuleOptions& rule,
                                        const LearningRateSchedule& schedule, uint32_t period,
                                        float elasticity, std::optional<int> slot) {
  const AveragingOptions options{.rule = rule,
                                 .schedule = schedule,
                                 .period = period,
                                 .elasticity = elasticity,
                                 .slot = slot.value_or(kAnySlot)};
  return std::make_unique<AveragingHandle>(take(wait(
      timeout_s, [&](Time deadline) { return AveragingLearner::attach(server, deadline, options); },
      {.for_a_place = true})));
}

void bind_attach(py::class_<AveragingHandle>& learner) {
  const AveragingOptions defaults;
  learner
      .def_static("attach", &attach<std::string>, py::arg("name"),
                  py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
                  py::arg("rule") = defaults.rule, py::arg("schedule") = defaults.schedule,
                  py::arg("period") = defaults.period, py::arg("elasticity") = defaults.elasticity,
                  py::arg("slot") = py::none(),
                  R"(Waits for the server with that name, and for a free slot (or the one given).

rule, schedule: of the local steps.
period: mini-batches from one exchange to the next.
elasticity: the part of the distance to the centre that an exchange moves, in (0, 1].

Raises Timeout, Exhausted (no free slot), Conflict (the given slot is in use), Corrupt;
InvalidArgument for a server that does not average, or clips.)")
      .def_static(
          "attach",
          [](const ServerHandle& handle, double timeout_s, const UpdateRuleOptions& rule,
             const LearningRateSchedule& schedule, uint32_t period, float elasticity,
             std::optional<int> slot) {
            return attach(*handle.server, timeout_s, rule, schedule, period, elasticity, slot);
          },
          py::arg("server"), py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
          py::arg("rule") = defaults.rule, py::arg("schedule") = defaults.schedule,
          py::arg("period") = defaults.period, py::arg("elasticity") = defaults.elasticity,
          py::arg("slot") = py::none(), py::keep_alive<0, 1>(),
          "Attaches a thread of the server's process; the way into an anonymous segment.");
}

void bind_training(py::class_<AveragingHandle>& learner) {
  learner
      .def(
          "begin_mini_batch",
          [](const py::object& self, double timeout_s) {
            return read_only_view(
                take(use_until(self.cast<AveragingHandle&>(), timeout_s,
                               [](AveragingLearner& l, Time t) { return l.begin_mini_batch(t); })),
                self);
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "float32[parameters]: the local model to compute the next gradient from, read-only, no\n"
          "copy. Exchanges first if a period is over. Raises Timeout.")
      .def(
          "step",
          [](AveragingHandle& handle, const py::object& gradient, SampleRange samples) {
            const Exclusive one_thread(handle.busy);
            const auto values = input(gradient, handle.learner->learner().parameters(), "gradient");
            check(without_lock([&] { return handle.learner->step(values.span, samples); }));
          },
          py::arg("gradient"), py::arg("samples"),
          "Makes one update of the local model. The samples are committed with the next exchange.\n"
          "Raises InvalidArgument, Exhausted; then nothing has happened.")
      .def(
          "flush",
          [](AveragingHandle& handle, double timeout_s) {
            check(use_until(handle, timeout_s,
                            [](AveragingLearner& l, Time t) { return l.flush(t); }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Exchanges the open period and waits until the server has folded it. Raises Timeout.")
      .def(
          "detach",
          [](AveragingHandle& handle, double timeout_s) {
            check(use_until(handle, timeout_s,
                            [](AveragingLearner& l, Time t) { return l.detach(t); }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "flush(), then gives the slot back. Raises Timeout.");
}

}  // namespace

void bind_averaging_learner(py::module_& module) {
  Record<AveragingStats>(module, "AveragingStats", R"(Statistics of one AveragingLearner object.

mini_batches: all of them.
skipped: mini-batches that were dropped for NaN or Inf.
exchanges: with the server.
late: mini-batches by which a late server made periods longer.
restarts: how often the local model held NaN or Inf and began again at the centre.)")
      .field("mini_batches", &AveragingStats::mini_batches)
      .field("skipped", &AveragingStats::skipped)
      .field("exchanges", &AveragingStats::exchanges)
      .field("late", &AveragingStats::late)
      .field("restarts", &AveragingStats::restarts);
  py::class_<AveragingHandle> learner(module, "AveragingLearner",
                                      R"(One learner that trains a model of its own.

    model = learner.begin_mini_batch()
    learner.step(gradient_of(model, samples), samples)

Every `period` mini-batches it exchanges with the server, whose rule is "average". This is
elastic averaging; with Synchrony.BULK and elasticity 1 it is the mean of all models. For one
thread at a time. slot: its place at the server, which has `parameters` parameters. When the
object is destroyed, updates that were not exchanged are lost, and their samples stay
uncommitted: detach() first.)");
  bind_attach(learner);
  bind_training(learner);
  learner
      .def_property_readonly("slot",
                             [](const AveragingHandle& h) { return h.learner->learner().slot(); })
      .def_property_readonly(
          "parameters", [](const AveragingHandle& h) { return h.learner->learner().parameters(); })
      .def(
          "committed",
          [](const AveragingHandle& h, uint32_t p) { return h.learner->learner().committed(p); },
          py::arg("partition"),
          "The first position of a partition that no learner has\n"
          "committed.")
      .def(
          "stats", [](const AveragingHandle& h) { return h.learner->stats(); },
          "Statistics of this object: AveragingStats.");
}

}  // namespace ffdl::python
