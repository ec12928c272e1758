#include "ffdl/learner.h"

#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "learner_handle.h"
#include "record.h"
#include "server_handle.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

struct PulledArray {
  py::array weights;
  uint64_t version = 0;
};

LearnerOptions options_for(std::optional<int> slot) { return {.slot = slot.value_or(kAnySlot)}; }

template <class Call>
std::unique_ptr<LearnerHandle> attach(double timeout_s, Call&& call) {
  return std::make_unique<LearnerHandle>(take(wait(timeout_s, call, {.for_a_place = true})));
}

void bind_values(py::module_& module) {
  py::native_enum<PushResult>(module, "PushResult", "enum.Enum", "What became of a gradient.")
      .value("PUBLISHED", PushResult::kPublished)
      .value("ACCUMULATED", PushResult::kAccumulated)
      .value("SKIPPED", PushResult::kSkipped)
      .finalize();
  py::class_<SampleRange>(module, "SampleRange",
                          "Samples [begin, end) of a partition; a tuple of the three does as well.")
      .def(py::init<uint32_t, uint64_t, uint64_t>(), py::arg("partition"), py::arg("begin"),
           py::arg("end"))
      .def(py::init([](const std::tuple<uint32_t, uint64_t, uint64_t>& range) {
             return SampleRange{std::get<0>(range), std::get<1>(range), std::get<2>(range)};
           }),
           py::arg("range"))
      .def_readonly("partition", &SampleRange::partition)
      .def_readonly("begin", &SampleRange::begin)
      .def_readonly("end", &SampleRange::end);
  py::implicitly_convertible<py::tuple, SampleRange>();
  Record<LearnerStats>(module, "LearnerStats", R"(What one Learner object has done.

mini_batches: that it was given; published: gradients, each of one mini-batch or several;
accumulated: mini-batches that were added to another one; skipped: for NaN or Inf. waits: how often
it waited for others, with Synchrony.STALE or BULK.)")
      .field("mini_batches", &LearnerStats::mini_batches)
      .field("published", &LearnerStats::published)
      .field("accumulated", &LearnerStats::accumulated)
      .field("skipped", &LearnerStats::skipped)
      .field("waits", &LearnerStats::waits);
  Record<PulledArray>(
      module, "Pulled",
      "weights: float32[parameters], read-only, good until the next finish_pull(); version:\n"
      "of the server, that they are of.")
      .field("weights", &PulledArray::weights)
      .field("version", &PulledArray::version);
}

void bind_attach(py::class_<LearnerHandle>& learner) {
  learner
      .def_static(
          "attach",
          [](const std::string& name, double timeout_s, std::optional<int> slot) {
            return attach(timeout_s, [&](Time deadline) {
              return Learner::attach(name, deadline, options_for(slot));
            });
          },
          py::arg("name"), py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
          py::arg("slot") = py::none(),
          "Waits for the server of that name, and for a free slot (or the one given).\n"
          "Raises Timeout, Exhausted, InvalidArgument, Corrupt.")
      .def_static(
          "attach",
          [](const ServerHandle& handle, double timeout_s, std::optional<int> slot) {
            return attach(timeout_s, [&](Time deadline) {
              return Learner::attach(*handle.server, deadline, options_for(slot));
            });
          },
          py::arg("server"), py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
          py::arg("slot") = py::none(), py::keep_alive<0, 1>(),
          "The same for threads of the server's process; the way into an anonymous segment.");
}

void bind_gradients(py::class_<LearnerHandle>& learner) {
  learner
      .def(
          "begin_mini_batch",
          [](LearnerHandle& handle, double timeout_s) {
            check(use_until(handle, timeout_s,
                            [](Learner& l, Time t) { return l.begin_mini_batch(t); }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits while this learner is too far ahead; not at all with Synchrony.ASYNC.\n"
          "Raises Timeout.")
      .def(
          "gradient_slot",
          [](const py::object& self, double timeout_s) {
            auto& handle = self.cast<LearnerHandle&>();
            return view(take(use_until(handle, timeout_s,
                                       [](Learner& l, Time t) { return l.gradient_slot(t); })),
                        self);
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "float32[parameters] for this mini-batch's gradient: overwrite it whole, push(), and do\n"
          "not touch it again. Shared memory, no copy. Raises Timeout.")
      .def(
          "push",
          [](LearnerHandle& handle, SampleRange samples) {
            return take(use(handle, [&](Learner& l) { return l.push(samples); }));
          },
          py::arg("samples"),
          "Commits the gradient in gradient_slot() together with the samples that made it.\n"
          "Raises InvalidArgument for NaN or Inf with NonFinite.REJECT.")
      .def(
          "push",
          [](LearnerHandle& handle, const py::object& gradient, SampleRange samples) {
            const auto values = input(gradient, handle.learner->parameters(), "gradient");
            return take(use(handle, [&](Learner& l) { return l.push(values.span, samples); }));
          },
          py::arg("gradient"), py::arg("samples"),
          "The same for a C-contiguous float32 array or tensor of your own, which is copied once.")
      .def(
          "start_push",
          [](LearnerHandle& handle, const py::object& gradient, SampleRange samples) {
            auto values = input(gradient, handle.learner->parameters(), "gradient");
            check(use(handle, [&](Learner& l) { return l.start_push(values.span, samples); }));
            handle.pushed = std::move(values.owner);
          },
          py::arg("gradient"), py::arg("samples"),
          "Begins push(gradient, samples) on a thread of the learner's own; leave the array alone\n"
          "until finish_push() returns.")
      .def(
          "finish_push",
          [](LearnerHandle& handle, double timeout_s) {
            const PushResult result = take(
                use_until(handle, timeout_s, [](Learner& l, Time t) { return l.finish_push(t); }));
            handle.pushed = py::object();
            return result;
          },
          py::arg("timeout_s") = kDefaultTimeoutS, "Waits for start_push(). Raises Timeout.")
      .def(
          "flush",
          [](LearnerHandle& handle, double timeout_s) {
            check(use_until(handle, timeout_s, [](Learner& l, Time t) { return l.flush(t); }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Publishes what was accumulated, waits until the server has folded it. Raises Timeout.");
}

void bind_weights(py::class_<LearnerHandle>& learner) {
  learner
      .def(
          "pull",
          [](LearnerHandle& handle, const py::object& weights, PullMode mode) {
            const auto target = output(weights, handle.learner->parameters(), "weights");
            return take(use(handle, [&](Learner& l) { return l.pull(target.span, mode); }));
          },
          py::arg("weights"), py::arg("mode") = PullMode::kRelaxed,
          "Copies the weights into a float32[parameters] array; returns their version.")
      .def(
          "live_weights",
          [](const py::object& self) {
            return read_only_view(self.cast<LearnerHandle&>().learner->live_weights(), self);
          },
          "float32[parameters]: the weights as they change, read-only, no copy, no consistency.")
      .def(
          "start_pull",
          [](LearnerHandle& handle, PullMode mode) {
            check(use(handle, [&](Learner& l) { return l.start_pull(mode); }));
          },
          py::arg("mode") = PullMode::kRelaxed,
          "Begins a copy of the weights on a thread of the learner's own.")
      .def(
          "finish_pull",
          [](const py::object& self, double timeout_s) {
            const Learner::Pulled pulled =
                take(use_until(self.cast<LearnerHandle&>(), timeout_s,
                               [](Learner& l, Time t) { return l.finish_pull(t); }));
            return PulledArray{read_only_view(pulled.weights, self), pulled.version};
          },
          py::arg("timeout_s") = kDefaultTimeoutS, "Waits for start_pull(). Raises Timeout.");
}

}  // namespace

void bind_learner(py::module_& module) {
  bind_values(module);
  py::class_<LearnerHandle> learner(module, "Learner",
                                    R"(One learner: takes weights, gives gradients.

    slot = learner.gradient_slot()
    learner.pull(weights)
    slot[:] = gradient_of(weights, samples)
    learner.push(samples)

slot: its place at the server, which has so many `parameters`. For one thread at a time. What was
not published when it goes is void, and its samples stay uncommitted: detach() first.)");
  bind_attach(learner);
  bind_gradients(learner);
  bind_weights(learner);
  bind_sparse(learner);
  learner.def_property_readonly("slot", [](const LearnerHandle& h) { return h.learner->slot(); })
      .def_property_readonly("parameters",
                             [](const LearnerHandle& h) { return h.learner->parameters(); })
      .def_property_readonly(
          "partitions", [](const LearnerHandle& h) { return h.learner->partitions(); },
          "How many the server has.")
      .def_property_readonly(
          "gradient_type", [](const LearnerHandle& h) { return h.learner->gradient_type(); },
          "GradientType of the server's slots: best of what is pushed, too.")
      .def(
          "committed", [](const LearnerHandle& h, uint32_t p) { return h.learner->committed(p); },
          py::arg("partition"), "The first position of a partition that nobody has committed.")
      .def(
          "stats", [](LearnerHandle& h) { return use(h, [](Learner& l) { return l.stats(); }); },
          "What this object has done: LearnerStats.")
      .def(
          "detach",
          [](LearnerHandle& handle, double timeout_s) {
            check(use_until(handle, timeout_s, [](Learner& l, Time t) { return l.detach(t); }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "flush(), then gives the slot back. Raises Timeout.");
}

}  // namespace ffdl::python
