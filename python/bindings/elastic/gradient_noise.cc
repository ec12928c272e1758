#include "ffdl/tuning/gradient_noise.h"

#include <memory>
#include <utility>

#include "bindings/base/buffers.h"
#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/bindings.h"
#include "bindings/elastic/participant_handle.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

struct NoiseHandle final : ParticipantHandle {
  StepParticipant& participant() const override { return *noise; }
  const GradientNoise& use() const {
    expect_own_turn();
    return *noise;
  }

  Elements gradients;
  std::unique_ptr<GradientNoise> noise;
};

std::unique_ptr<NoiseHandle> create_noise(const py::object& gradients, uint64_t interval,
                                          double smoothing, uint64_t block_stride) {
  auto handle = std::make_unique<NoiseHandle>();
  handle->gradients = elements_to_read(gradients, "gradients", Memory::kAny);
  handle->noise = take(GradientNoise::create({.gradients = handle->gradients.buffers,
                                              .interval = interval,
                                              .smoothing = smoothing,
                                              .block_stride = block_stride,
                                              .device = handle->gradients.device}));
  return handle;
}

void bind_noise_scale(py::module_& module) {
  Record<NoiseScale> noise(module, "NoiseScale",
                           R"(The difference among the gradients of single samples.

variance: of one sample's gradient, the trace of the covariance.
squared_norm: of the gradient over all samples.
measurements: the number that both are averages of; 0: nothing is known.)");
  noise.field("variance", &NoiseScale::variance)
      .field("squared_norm", &NoiseScale::squared_norm)
      .field("measurements", &NoiseScale::measurements);
  noise.type()
      .def(py::init([](double variance, double squared_norm, uint64_t measurements) {
             return NoiseScale{variance, squared_norm, measurements};
           }),
           py::arg("variance") = 0.0, py::arg("squared_norm") = 0.0, py::arg("measurements") = 0)
      .def_property_readonly(
          "value", &NoiseScale::value,
          "The batch, in samples, up to which twice the samples nearly halve the number of steps:\n"
          "the simple noise scale (arXiv 1812.06162, section 2.2). 0: nothing is known.")
      .def("gain", &NoiseScale::gain, py::arg("reference"), py::arg("samples"),
           "The worth of one step of `samples` samples, in steps of `reference`: the gain\n"
           "of AdaScale (arXiv 2007.05105, section 3).");
}

}  // namespace

void bind_gradient_noise(py::module_& module) {
  bind_noise_scale(module);
  const GradientNoiseOptions d;
  py::class_<NoiseHandle, ParticipantHandle>(module, "GradientNoise",
                                             R"(Measures the noise of gradients as a session trains.

    noise = ffdl.GradientNoise.create(gradients=[gradient])
    session = ffdl.Session.open(gradients=[gradient], participants=[ledger, noise], ...)
    ... steps ...
    noise.noise_scale.value

noise_scale: the NoiseScale, equal at all members after each step. Clip gradients in `apply`, not
before: the measurement needs the unclipped ones. One thread at a time, that of the session.
Waits only for a GPU whose memory holds the gradients, in the steps that it measures. The header
is ffdl/tuning/gradient_noise.h.)")
      .def_static("create", &create_noise, py::kw_only(), py::arg("gradients"),
                  py::arg("interval") = d.interval, py::arg("smoothing") = d.smoothing,
                  py::arg("block_stride") = d.block_stride,
                  R"(gradients: the arrays that the session averages, of a floating dtype.

interval: steps from one measurement to the next.
smoothing: the part of the averages that a measurement retains, 0 to below 1.
block_stride: of large gradients, one block of 1,024 elements in that many is read, another one in
each measurement; 1: all.

Raises InvalidArgument; for a GPU's memory also Unimplemented (no GPU, driver or CUDA) and Exhausted
(it is full).)")
      .def_property_readonly("noise_scale",
                             [](const NoiseHandle& handle) { return handle.use().noise_scale(); });
}

}  // namespace ffdl::python
