#include "ffdl/ps/learner.h"

#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/base/arrays.h"
#include "bindings/base/foreign_array.h"
#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/bindings.h"
#include "bindings/ps/gradient.h"
#include "bindings/ps/learner_handle.h"
#include "bindings/ps/server_handle.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

LearnerOptions options_for(std::optional<int> slot, std::optional<int> device) {
  return {.slot = slot.value_or(kAnySlot), .device = device};
}

// `server`: its name, or the object.
template <class Server>
std::unique_ptr<LearnerHandle> attach(const Server& server, double timeout_s,
                                      const LearnerOptions& options) {
  auto learner = take(
      wait(timeout_s, [&](Time deadline) { return Learner::attach(server, deadline, options); },
           {.for_a_place = true}));
  return std::make_unique<LearnerHandle>(std::move(learner), options.device.has_value());
}

// Converts a CUDA handle from its Python form.
void* stream_at(uint64_t address) { return std::bit_cast<void*>(address); }

// Refuses memory of a GPU for a call that works in the host's.
void expect_host(const char* name, std::optional<int> device) {
  if (device) refuse_device(name, *device);
}

template <class Samples>
PushResult push(LearnerHandle& handle, const py::object& gradient, const Samples& samples) {
  const GivenGradient given = given_gradient(gradient, handle.learner->parameters());
  expect_host("gradient", given.device);
  return take(use(handle, [&](Learner& l) { return l.push(given.gradient, samples); }));
}

template <class Samples>
void start_push(LearnerHandle& handle, const py::object& gradient, const Samples& samples,
                uint64_t stream) {
  GivenGradient given = given_gradient(gradient, handle.learner->parameters());
  if (!handle.has_device) expect_host("gradient", given.device);
  check(use(handle,
            [&](Learner& l) { return l.start_push(given.gradient, samples, stream_at(stream)); }));
  handle.pushed = py::cast(std::move(given.owners));
}

void start_pull(LearnerHandle& handle, const py::object& weights, PullMode mode, uint64_t stream) {
  auto target = output(weights, handle.learner->parameters(), "weights", Memory::kAny);
  if (!handle.has_device) expect_host("weights", target.device);
  check(
      use(handle, [&](Learner& l) { return l.start_pull(target.span, mode, stream_at(stream)); }));
  handle.pulled = std::move(target.owner);
}

void start_pull_rows(LearnerHandle& handle, const py::sequence& tables, uint64_t stream) {
  GivenRows given = given_rows(tables);
  if (!handle.has_device) expect_host("weights", given.device);
  check(
      use(handle, [&](Learner& l) { return l.start_pull_rows(given.tables, stream_at(stream)); }));
  handle.pulled = py::cast(std::move(given.owners));
}

void bind_values(py::module_& module) {
  py::native_enum<PushResult>(module, "PushResult", "enum.Enum",
                              "The result of a push of a gradient.")
      .value("PUBLISHED", PushResult::kPublished)
      .value("ACCUMULATED", PushResult::kAccumulated)
      .value("SKIPPED", PushResult::kSkipped)
      .finalize();
  py::class_<SampleRange>(module, "SampleRange",
                          "Samples [begin, end) of a partition; a tuple of the three is\n"
                          "accepted, too.")
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
  Record<LearnerStats>(module, "LearnerStats", R"(Statistics of one Learner object.

mini_batches: those given to it.
published: gradients, each of one mini-batch or several.
accumulated: mini-batches that were added to another one.
skipped: mini-batches that were dropped for NaN or Inf.
waits: how often it waited for others, with Synchrony.STALE or BULK.)")
      .field("mini_batches", &LearnerStats::mini_batches)
      .field("published", &LearnerStats::published)
      .field("accumulated", &LearnerStats::accumulated)
      .field("skipped", &LearnerStats::skipped)
      .field("waits", &LearnerStats::waits);
}

void bind_attach(py::class_<LearnerHandle>& learner) {
  learner
      .def_static(
          "attach",
          [](const std::string& name, double timeout_s, std::optional<int> slot,
             std::optional<int> device) {
            return attach(name, timeout_s, options_for(slot, device));
          },
          py::arg("name"), py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
          py::arg("slot") = py::none(), py::arg("device") = py::none(),
          R"(Waits for the server with that name, and for a free slot (or the one given).

device: the number of the GPU whose memory start_push() and start_pull() use; -1: the one that this
thread uses; None: the host's memory. Raises Timeout, Exhausted (no free slot), Conflict (the given
slot is in use), InvalidArgument, Corrupt; with a device also Unimplemented: no GPU, no driver, or a
build without CUDA.)")
      .def_static(
          "attach",
          [](const ServerHandle& handle, double timeout_s, std::optional<int> slot,
             std::optional<int> device) {
            return attach(*handle.server, timeout_s, options_for(slot, device));
          },
          py::arg("server"), py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
          py::arg("slot") = py::none(), py::arg("device") = py::none(), py::keep_alive<0, 1>(),
          "Attaches a thread of the server's process; the way into an anonymous segment.");
}

template <class Samples>
void bind_pushes(py::class_<LearnerHandle>& learner) {
  learner
      .def("push", &push<Samples>, py::arg("gradient"), py::arg("samples"),
           R"(Commits a gradient together with the samples that made it.

gradient: an array of the host's memory, or a Gradient. samples: a SampleRange, or several separate
ones in the order of their use. A float32 array is copied once. 16-bit numbers are converted to
float32, then to the server's gradient_type. Raises InvalidArgument for NaN or Inf with
NonFinite.REJECT.)")
      .def("start_push", &start_push<Samples>, py::arg("gradient"), py::arg("samples"),
           py::kw_only(), py::arg("stream") = 0,
           R"(Starts push(gradient, samples) on a thread of the learner's own, and returns.

Leave the values alone until finish_push() returns. With a device they are in the memory of that
GPU. Their copy follows the work on `stream`, a cudaStream_t as a number; 0: the default stream.
There are then at most `parameters` values in a sparse gradient. One push at a time.)");
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
          "Waits while this learner is too far ahead; never with Synchrony.ASYNC. Raises Timeout.")
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
          "not touch it again. Shared memory, no copy; private memory if the server is late or\n"
          "gradients have 16 bits. Raises Timeout.")
      .def(
          "finish_push",
          [](LearnerHandle& handle, double timeout_s) {
            const PushResult result = take(
                use_until(handle, timeout_s, [](Learner& l, Time t) { return l.finish_push(t); }));
            handle.pushed = py::object();
            return result;
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits for start_push(), and returns the result of the push. Raises Timeout (it has not\n"
          "ended), and the errors of push() and of the GPU: then nothing of it was committed.")
      .def(
          "flush",
          [](LearnerHandle& handle, double timeout_s) {
            check(use_until(handle, timeout_s, [](Learner& l, Time t) { return l.flush(t); }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Publishes the accumulated gradient and waits until the server has folded it. Raises\n"
          "Timeout.");
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
          "pull_rows",
          [](LearnerHandle& handle, const py::sequence& tables) {
            const GivenRows given = given_rows(tables);
            expect_host("weights", given.device);
            return take(use(handle, [&](Learner& l) { return l.pull_rows(given.tables); }));
          },
          py::arg("tables"),
          "Copies rows of tables: (first parameter of the table, int64[n] rows,\n"
          "float32[n, row_size] weights) for each. Returns the version.")
      .def("start_pull", &start_pull, py::arg("weights"), py::arg("mode") = PullMode::kRelaxed,
           py::kw_only(), py::arg("stream") = 0,
           "Starts a copy of the weights into float32[parameters] on a thread of the learner's\n"
           "own. With a device they are in the memory of that GPU, and the copy follows the work\n"
           "on `stream`, as start_push(). One pull at a time.")
      .def("start_pull_rows", &start_pull_rows, py::arg("tables"), py::kw_only(),
           py::arg("stream") = 0,
           "Starts pull_rows() as start_pull(); the rows are in the host's memory.")
      .def(
          "finish_pull",
          [](LearnerHandle& handle, double timeout_s) {
            const uint64_t version = take(
                use_until(handle, timeout_s, [](Learner& l, Time t) { return l.finish_pull(t); }));
            handle.pulled = py::object();
            return version;
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits until the weights are there, for all streams; returns their version. Raises\n"
          "Timeout, and the errors of the GPU.");
}

}  // namespace

void bind_learner(py::module_& module) {
  bind_gradient(module);
  bind_values(module);
  py::class_<LearnerHandle> learner(module, "Learner",
                                    R"(One learner: pulls weights and pushes gradients.

    slot = learner.gradient_slot()
    learner.pull(weights)
    slot[:] = gradient_of(weights, samples)
    learner.push(ffdl.Gradient.slot(), samples)

With a GPU, attached with device=0:

    stream = torch.cuda.current_stream().cuda_stream
    learner.start_pull(weights, stream=stream)
    learner.finish_pull()
    compute(weights, gradient)
    learner.start_push(gradient, samples, stream=stream)  # returns at once
    learner.finish_push()                                 # the gradient may be overwritten

Transfers overlap with computation if two arrays of each kind are used in turn.
slot: its place at the server, which has `parameters` parameters. For one thread at a time. When
the object is destroyed, gradients that were not published are lost, and their samples stay
uncommitted: detach() first. not_pinned: the reason why the memory for a device could not be pinned,
which is slower; "" if it is pinned. The header, with the loop, is ffdl/ps/learner.h.)");
  bind_attach(learner);
  bind_gradients(learner);
  bind_pushes<SampleRange>(learner);
  bind_pushes<std::vector<SampleRange>>(learner);
  bind_weights(learner);
  learner.def_property_readonly("slot", [](const LearnerHandle& h) { return h.learner->slot(); })
      .def_property_readonly("parameters",
                             [](const LearnerHandle& h) { return h.learner->parameters(); })
      .def_property_readonly(
          "partitions", [](const LearnerHandle& h) { return h.learner->partitions(); },
          "The number of partitions of the server.")
      .def_property_readonly(
          "gradient_type",
          [](const LearnerHandle& h) { return to_string(h.learner->gradient_type()); },
          "The type of the server's slots, such as \"float32\", to which pushes are converted.")
      .def_property_readonly("not_pinned",
                             [](const LearnerHandle& h) { return h.learner->not_pinned(); })
      .def(
          "committed",
          [](const LearnerHandle& h, uint32_t p) {
            if (p >= h.learner->partitions()) {
              raise_invalid_argument("ask for partition " + std::to_string(p) + ": there are " +
                                     std::to_string(h.learner->partitions()) +
                                     ", from 0; name one of them");
            }
            return h.learner->committed(p);
          },
          py::arg("partition"),
          "The first position of a partition that no learner has\n"
          "committed.")
      .def(
          "stats", [](LearnerHandle& h) { return use(h, [](Learner& l) { return l.stats(); }); },
          "Statistics of this object: LearnerStats.")
      .def(
          "detach",
          [](LearnerHandle& handle, double timeout_s) {
            check(use_until(handle, timeout_s, [](Learner& l, Time t) { return l.detach(t); }));
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "flush(), then gives the slot back. Raises Timeout.");
}

}  // namespace ffdl::python
