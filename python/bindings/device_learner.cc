#include "ffdl/device_learner.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "buffers.h"
#include "learner_handle.h"
#include "server_handle.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// What a Python DeviceLearner holds. The Learner is a part of it that Python may keep longer, so
// that one owns both.
struct DeviceLearnerHandle {
  LearnerHandle& its_learner() const { return learner.cast<LearnerHandle&>(); }

  DeviceLearner* device;
  py::object learner;
};

template <class Call>
std::unique_ptr<DeviceLearnerHandle> attach_there(double timeout_s, Call&& call) {
  std::shared_ptr<DeviceLearner> attached = take(wait(timeout_s, call, {.for_a_place = true}));
  DeviceLearner* const device = attached.get();
  std::shared_ptr<Learner> learner(std::move(attached), &device->learner());
  return std::make_unique<DeviceLearnerHandle>(
      DeviceLearnerHandle{device, py::cast(std::make_unique<LearnerHandle>(std::move(learner)))});
}

DeviceLearnerOptions device_options(std::optional<int> slot, int device) {
  return {.device = device, .learner = {.slot = slot.value_or(kAnySlot)}};
}

[[noreturn]] void refuse(const char* name, const std::string& observed, const char* wanted) {
  raise_invalid_argument("take array '" + std::string(name) + "': " + observed + "; give " +
                         wanted);
}

// What the elements of an array may be, and the words for it.
struct WantedTypes {
  std::span<const DType> types;
  const char* words;
};
constexpr DType kRealTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr WantedTypes kFloats{std::span(kRealTypes).first(1), "float32"};
constexpr WantedTypes kHalves{std::span(kRealTypes).last(2), "bfloat16 or float16"};
constexpr WantedTypes kFloatsOrHalves{kRealTypes, "float32, bfloat16 or float16"};

// The one array that was given for `name`.
const Buffer& on_device(const Elements& given, const char* name, const WantedTypes& wanted) {
  if (given.buffers.size() != 1) {
    refuse(name, std::to_string(given.buffers.size()) + " arrays", "one");
  }
  const Buffer& array = given.buffers.front();
  if (!given.device) {
    refuse(name, "it lies in the host's memory", "one in the GPU's, or use the calls of `learner`");
  }
  if (std::ranges::find(wanted.types, array.dtype) != wanted.types.end()) return array;
  refuse(name, "elements of " + std::string(to_string(array.dtype)), wanted.words);
}

std::span<float> floats(const Elements& given, const char* name) {
  const Buffer& array = on_device(given, name, kFloats);
  return {static_cast<float*>(array.data), array.count};
}

// A handle of CUDA's, as Python has it.
void* stream_at(uint64_t address) { return std::bit_cast<void*>(address); }

// Of `values`, which has as many rows as there are numbers of rows.
uint64_t row_size(std::span<const float> values, size_t rows, const char* name) {
  if (rows > 0 && values.size() % rows == 0) return values.size() / rows;
  refuse(name, std::to_string(values.size()) + " elements for " + std::to_string(rows) + " rows",
         "as many for each row, and at least one row");
}

// Begins what `call(device learner)` does, and keeps the arrays until it has ended.
template <class Call>
void start(const DeviceLearnerHandle& handle, py::object LearnerHandle::* keeps,
           std::vector<py::object> arrays, Call&& call) {
  LearnerHandle& learner = handle.its_learner();
  check(use(learner, [&](Learner&) -> Status { return call(*handle.device); }));
  learner.*keeps = py::cast(std::move(arrays));
}

template <class Call>
auto finish(const DeviceLearnerHandle& handle, py::object LearnerHandle::* keeps, double timeout_s,
            Call&& call) {
  LearnerHandle& learner = handle.its_learner();
  auto outcome = take(use_until(
      learner, timeout_s, [&](Learner&, Time deadline) { return call(*handle.device, deadline); }));
  learner.*keeps = py::object();
  return outcome;
}

void start_push_of(const WantedTypes& wanted, const DeviceLearnerHandle& handle,
                   const py::object& gradient, const std::vector<SampleRange>& samples,
                   uint64_t stream) {
  Elements given = elements_to_read(gradient, "gradient", Memory::kAny);
  const Buffer array = on_device(given, "gradient", wanted);
  start(handle, &LearnerHandle::pushed, std::move(given.owners), [&](DeviceLearner& device) {
    if (array.dtype == DType::kFloat32) {
      return device.start_push_ranges({static_cast<const float*>(array.data), array.count},
                                      stream_at(stream), samples);
    }
    const GradientType type =
        array.dtype == DType::kBFloat16 ? GradientType::kBFloat16 : GradientType::kFloat16;
    return device.start_push_ranges(type, {static_cast<const uint16_t*>(array.data), array.count},
                                    stream_at(stream), samples);
  });
}

// Numbers of rows, which lie in the host's memory; `arrays` keeps them there.
std::span<const uint64_t> numbers_of(const py::object& given, std::vector<py::object>& arrays) {
  auto numbers = row_numbers(given);
  arrays.push_back(std::move(numbers.owner));
  return numbers.span;
}

using Table = std::tuple<uint64_t, py::object, py::object>;
using Dense = std::tuple<uint64_t, py::object>;

void start_push_sparse(const DeviceLearnerHandle& handle, SampleRange samples,
                       const std::vector<Table>& tables, const std::vector<Dense>& dense,
                       uint64_t stream) {
  std::vector<py::object> arrays;
  const auto values_of = [&](const py::object& array) -> std::span<const float> {
    Elements given = elements_to_read(array, "values", Memory::kAny);
    const std::span<const float> values = floats(given, "values");
    arrays.push_back(std::move(given.owners.front()));
    return values;
  };
  std::vector<RowGradient> rows;
  for (const auto& [table, numbers, array] : tables) {
    const std::span<const uint64_t> named = numbers_of(numbers, arrays);
    const std::span<const float> values = values_of(array);
    rows.push_back({table, row_size(values, named.size(), "values"), named, values});
  }
  std::vector<DenseGradient> parts;
  for (const auto& [begin, array] : dense) parts.push_back({begin, values_of(array)});
  start(handle, &LearnerHandle::pushed, std::move(arrays), [&](DeviceLearner& device) {
    return device.start_push_sparse({.tables = rows, .dense = parts}, stream_at(stream), samples);
  });
}

void start_pull(const DeviceLearnerHandle& handle, const py::object& weights, PullMode mode,
                uint64_t stream) {
  Elements given = elements_to_write(weights, "weights", Memory::kAny);
  const std::span<float> to = floats(given, "weights");
  start(handle, &LearnerHandle::pulled, std::move(given.owners),
        [&](DeviceLearner& device) { return device.start_pull(to, stream_at(stream), mode); });
}

void start_pull_rows(const DeviceLearnerHandle& handle, const std::vector<Table>& tables,
                     uint64_t stream) {
  std::vector<py::object> arrays;
  std::vector<DeviceRows> rows;
  for (const auto& [table, numbers, array] : tables) {
    const std::span<const uint64_t> named = numbers_of(numbers, arrays);
    Elements given = elements_to_write(array, "weights", Memory::kAny);
    const std::span<float> to = floats(given, "weights");
    arrays.push_back(std::move(given.owners.front()));
    rows.push_back({table, row_size(to, named.size(), "weights"), named, to});
  }
  start(handle, &LearnerHandle::pulled, std::move(arrays),
        [&](DeviceLearner& device) { return device.start_pull_rows(rows, stream_at(stream)); });
}

void bind_attach(py::class_<DeviceLearnerHandle>& learner) {
  const DeviceLearnerOptions defaults;
  learner
      .def_static(
          "attach",
          [](const std::string& name, double timeout_s, std::optional<int> slot, int device) {
            return attach_there(timeout_s, [&](Time deadline) {
              return DeviceLearner::attach(name, deadline, device_options(slot, device));
            });
          },
          py::arg("name"), py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
          py::arg("slot") = py::none(), py::arg("device") = defaults.device,
          "As Learner.attach. device: the number of the GPU.\n"
          "Raises also Unimplemented: no GPU, no driver, or a build without CUDA.")
      .def_static(
          "attach",
          [](const ServerHandle& handle, double timeout_s, std::optional<int> slot, int device) {
            return attach_there(timeout_s, [&](Time deadline) {
              return DeviceLearner::attach(*handle.server, deadline, device_options(slot, device));
            });
          },
          py::arg("server"), py::arg("timeout_s") = kDefaultTimeoutS, py::kw_only(),
          py::arg("slot") = py::none(), py::arg("device") = defaults.device, py::keep_alive<0, 1>(),
          "The same for threads of the server's process; the way into an anonymous segment.");
}

void bind_pushes(py::class_<DeviceLearnerHandle>& learner) {
  learner
      .def(
          "start_push",
          [](const DeviceLearnerHandle& handle, const py::object& gradient, SampleRange samples,
             uint64_t stream) { start_push_of(kFloats, handle, gradient, {samples}, stream); },
          py::arg("gradient"), py::arg("samples"), py::kw_only(), py::arg("stream") = 0,
          "Orders the copy of a float32[parameters] gradient behind what `stream` was given, and\n"
          "returns. It stays as that leaves it until finish_push(). One push at a time.")
      .def(
          "start_push_halves",
          [](const DeviceLearnerHandle& handle, const py::object& gradient, SampleRange samples,
             uint64_t stream) { start_push_of(kHalves, handle, gradient, {samples}, stream); },
          py::arg("gradient"), py::arg("samples"), py::kw_only(), py::arg("stream") = 0,
          "The same for bfloat16 or float16: half of the bytes.")
      .def(
          "start_push_ranges",
          [](const DeviceLearnerHandle& handle, const py::object& gradient,
             const std::vector<SampleRange>& samples, uint64_t stream) {
            start_push_of(kFloatsOrHalves, handle, gradient, samples, stream);
          },
          py::arg("gradient"), py::arg("samples"), py::kw_only(), py::arg("stream") = 0,
          "The same for several separate sample ranges, in the order of their use; float32,\n"
          "bfloat16 or float16.")
      .def("start_push_sparse", &start_push_sparse, py::arg("samples"), py::kw_only(),
           py::arg("tables") = std::vector<Table>(), py::arg("dense") = std::vector<Dense>(),
           py::arg("stream") = 0,
           R"(The same for a gradient that touches few of the parameters.

As Learner.push_sparse, with the rows of the host, read before this returns, and the values of the
GPU: no more than `parameters` of them, so add up rows that come again.)")
      .def(
          "finish_push",
          [](const DeviceLearnerHandle& handle, double timeout_s) {
            return finish(handle, &LearnerHandle::pushed, timeout_s,
                          [](DeviceLearner& device, Time t) { return device.finish_push(t); });
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits until the gradient has left the GPU, and tells what became of it. Raises "
          "Timeout,\n"
          "and what the GPU failed with: then nothing of that push was committed.");
}

void bind_pulls(py::class_<DeviceLearnerHandle>& learner) {
  learner
      .def("start_pull", &start_pull, py::arg("weights"), py::arg("mode") = PullMode::kRelaxed,
           py::kw_only(), py::arg("stream") = 0,
           "Begins to copy the weights into float32[parameters] of the GPU, behind what `stream` "
           "was\n"
           "given, and returns. One pull at a time.")
      .def("start_pull_rows", &start_pull_rows, py::arg("tables"), py::kw_only(),
           py::arg("stream") = 0,
           "The same for rows: (first parameter of the table, int64[n] rows of the host,\n"
           "float32[n, row_size] of the GPU) for each table.")
      .def(
          "finish_pull",
          [](const DeviceLearnerHandle& handle, double timeout_s) {
            return finish(handle, &LearnerHandle::pulled, timeout_s,
                          [](DeviceLearner& device, Time t) { return device.finish_pull(t); });
          },
          py::arg("timeout_s") = kDefaultTimeoutS,
          "Waits until the weights are there, for all streams; their version. Raises Timeout, and\n"
          "what the GPU failed with.");
}

}  // namespace

void bind_device_learner(py::module_& module) {
  py::class_<DeviceLearnerHandle> learner(
      module, "DeviceLearner",
      R"(A Learner whose weights and gradients lie in a GPU's memory.

    stream = torch.cuda.current_stream().cuda_stream
    learner.start_pull(weights, stream=stream)
    learner.finish_pull()
    compute(weights, gradient)
    learner.start_push(gradient, samples, stream=stream)  # returns at once
    learner.finish_push()                                 # the gradient may be overwritten

Copies go beside what the GPU computes, where two arrays of each are used in turn. Arrays lie in the
GPU's memory, as Communicator takes them. stream: a cudaStream_t as a number; 0: the default stream.
learner: the Learner, for all else; of the calls that start and finish something, use those of this
object alone. not_pinned: why the memory could not be pinned, which is slower; "" where it is.
For one thread at a time. The header, with the loop, is ffdl/device_learner.h.)");
  bind_attach(learner);
  bind_pushes(learner);
  bind_pulls(learner);
  learner.def_property_readonly("learner", [](const DeviceLearnerHandle& h) { return h.learner; })
      .def_property_readonly("not_pinned",
                             [](const DeviceLearnerHandle& h) { return h.device->not_pinned(); });
}

}  // namespace ffdl::python
