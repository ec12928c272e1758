#include <pybind11/stl.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/base/buffers.h"
#include "bindings/base/status.h"
#include "bindings/base/waiting.h"
#include "bindings/bindings.h"
#include "ffdl/ps/update_rule.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

constexpr const char* kDocs =
    R"(Updates weights in a GPU's memory once, in place, by a built-in rule.

Serves as apply() of a Session, and in loops of your own.

gradient: float32, bfloat16 or float16.
weights: float32.
state: the rule's state, float32 zeros before the first update. It is one array for momentum,
nesterov and adagrad, two for adam and adamw, none for the others.
number: of the update, from 1.
stream: a cudaStream_t as a number; 0: the default stream.

All arrays are in the memory of the GPU that this thread uses, at multiples of 16 bytes. They have
the same number of elements and share no element. learning_rate is used, not that of the options.
The gradient is multiplied by gradient_scale, then clamped to [-clip_value, clip_value] (0: not).
Returns at once: keep the arrays until the stream is done. The weights get the same bits as from a
ParameterServer's rule. Raises InvalidArgument; Unimplemented (no GPU, driver or kernel for it; a
build without CUDA).)";

// Arrays of an update: of one length and on one GPU.
class Arrays {
 public:
  // Returns the one array in `given`, which keeps its memory valid.
  Buffer add(const Elements& given, const char* name) {
    if (given.buffers.size() != 1) {
      refuse_array(name, std::to_string(given.buffers.size()) + " arrays; give one");
    }
    if (!given.device) refuse_array(name, "it is in the host's memory; give one in the GPU's");
    const int device = *given.device;
    const Buffer& array = given.buffers.front();
    if (count_ && array.count != *count_) {
      refuse_array(name, std::to_string(array.count) + " elements, and other arrays have " +
                             std::to_string(*count_) + "; give all of them the same number");
    }
    if (device_ != kDeviceInUse && device != kDeviceInUse && device != device_) {
      refuse_array(name, "it is in the memory of " + gpu_of(device) +
                             ", and other arrays are in that of " + gpu_of(device_) +
                             "; put all of them into the memory of one GPU");
    }
    count_ = array.count;
    device_ = std::max(device_, device);
    return array;
  }

  // Returns the elements of one array that the update writes.
  float* add_floats(const Elements& given, const char* name) {
    const Buffer array = add(given, name);
    if (array.dtype != DType::kFloat32) {
      refuse_array(name, "elements of " + std::string(to_string(array.dtype)) + "; give float32");
    }
    return static_cast<float*>(array.data);
  }

  uint64_t count() const { return count_.value_or(0); }

 private:
  std::optional<uint64_t> count_;
  int device_ = kDeviceInUse;
};

void start_update(const UpdateRuleOptions& options, uint64_t number, float learning_rate,
                  const py::object& gradient, const py::object& weights,
                  const std::vector<py::object>& state, float gradient_scale, float clip_value,
                  uint64_t stream) {
  const int kept = take(make_update_rule(options))->state_count();
  if (state.size() != static_cast<size_t>(kept)) {
    refuse_array("state", std::to_string(state.size()) + " arrays; rule '" +
                              std::string(to_string(options.kind)) + "' keeps " +
                              std::to_string(kept));
  }
  Arrays arrays;
  std::vector<Elements> given;  // keeps the memory valid
  DeviceUpdate update;
  given.push_back(elements_to_read(gradient, "gradient", Memory::kAny));
  const Buffer read = arrays.add(given.back(), "gradient");
  update.gradient = read.data;
  update.gradient_type = read.dtype;
  given.push_back(elements_to_write(weights, "weights", Memory::kAny));
  update.weights = arrays.add_floats(given.back(), "weights");
  for (size_t i = 0; i < state.size(); ++i) {
    given.push_back(elements_to_write(state[i], "state", Memory::kAny));
    update.state[i] = arrays.add_floats(given.back(), "state");
  }
  update.count = arrays.count();
  const UpdateStep step{.number = number,
                        .learning_rate = learning_rate,
                        .gradient_scale = gradient_scale,
                        .clip_value = clip_value};
  // The driver may be loaded here.
  check(without_lock(
      [&] { return update_on_device(options, step, update, std::bit_cast<void*>(stream)); }));
}

}  // namespace

void bind_device_update(py::module_& module) {
  const UpdateStep defaults;
  module.def("update_on_device", &start_update, py::arg("options"), py::kw_only(),
             py::arg("number"), py::arg("learning_rate"), py::arg("gradient"), py::arg("weights"),
             py::arg("state") = std::vector<py::object>(),
             py::arg("gradient_scale") = defaults.gradient_scale,
             py::arg("clip_value") = defaults.clip_value, py::arg("stream") = 0, kDocs);
}

}  // namespace ffdl::python
