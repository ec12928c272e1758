#include <pybind11/native_enum.h>

#include "bindings/base/record.h"
#include "bindings/base/status.h"
#include "bindings/bindings.h"
#include "ffdl/tuning/batch_size.h"

namespace py = pybind11;

namespace ffdl::python {

void bind_batch_rule(py::module_& module) {
  py::native_enum<LearningRateRule>(
      module, "LearningRateRule", "enum.Enum",
      "The factor on the learning rate for a step with s times the samples it was chosen for.\n"
      "\n"
      "CONSTANT: 1. LINEAR: s. SQUARE_ROOT: the square root of s. ADA_SCALE: from 1 to s, by\n"
      "the noise of the gradient.")
      .value("CONSTANT", LearningRateRule::kConstant)
      .value("LINEAR", LearningRateRule::kLinear)
      .value("SQUARE_ROOT", LearningRateRule::kSquareRoot)
      .value("ADA_SCALE", LearningRateRule::kAdaScale)
      .finalize();

  const BatchRule d;
  Record<BatchRule> rule(module, "BatchRule",
                         R"(Rules for the batch size when the number of workers changes.

samples: of one step, over all workers, for which the learning rate was chosen.
workers: the number of workers for `samples`; more workers then have more samples in a step. With
0 a step keeps its samples, and the share of each worker shrinks.
samples_max: of a step; 0: no bound.
micro_batch_max: samples that a worker can compute at a time; 0: no bound.
learning_rate: a LearningRateRule.)");
  rule.type().def(py::init([](uint64_t samples, int workers, uint64_t samples_max,
                              uint64_t micro_batch_max, LearningRateRule learning_rate) {
                    return BatchRule{samples, workers, samples_max, micro_batch_max, learning_rate};
                  }),
                  py::kw_only(), py::arg("samples"), py::arg("workers") = d.workers,
                  py::arg("samples_max") = d.samples_max,
                  py::arg("micro_batch_max") = d.micro_batch_max,
                  py::arg("learning_rate") = d.learning_rate);
  rule.field("samples", &BatchRule::samples)
      .field("workers", &BatchRule::workers)
      .field("samples_max", &BatchRule::samples_max)
      .field("micro_batch_max", &BatchRule::micro_batch_max)
      .field("learning_rate", &BatchRule::learning_rate);

  Record<StepBatch>(module, "StepBatch",
                    R"(One step of one worker.

samples: over all workers.
share: the samples that this worker takes from the ledger.
micro_batches: the number in which it computes its share, one after another.
learning_rate_factor: on the learning rate.
progress: the steps by which a schedule of the learning rate advances; 1 except with ADA_SCALE.)")
      .field("samples", &StepBatch::samples)
      .field("share", &StepBatch::share)
      .field("micro_batches", &StepBatch::micro_batches)
      .field("learning_rate_factor", &StepBatch::learning_rate_factor)
      .field("progress", &StepBatch::progress);
  module.def(
      "step_batch",
      [](const BatchRule& given, int rank, int workers, const NoiseScale& noise) {
        return take(step_batch(given, rank, workers, noise));
      },
      py::arg("rule"), py::arg("rank"), py::arg("workers"), py::arg("noise") = NoiseScale{},
      "Returns the step of worker `rank` of `workers`, a StepBatch. noise: for ADA_SCALE\n"
      "alone. Raises InvalidArgument.");
}

}  // namespace ffdl::python
