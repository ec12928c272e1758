#include "ffdl/batch_rule.h"

#include <pybind11/native_enum.h>

#include "bindings.h"
#include "record.h"
#include "status.h"

namespace py = pybind11;

namespace ffdl::python {

void bind_batch_rule(py::module_& module) {
  py::native_enum<LearningRateRule>(
      module, "LearningRateRule", "enum.Enum",
      "The factor on the learning rate when a step has s times the samples it was chosen for.\n\n"
      "CONSTANT: 1. LINEAR: s. SQUARE_ROOT: the square root of s. ADA_SCALE: what the gradient's\n"
      "noise allows, from 1 to s.")
      .value("CONSTANT", LearningRateRule::kConstant)
      .value("LINEAR", LearningRateRule::kLinear)
      .value("SQUARE_ROOT", LearningRateRule::kSquareRoot)
      .value("ADA_SCALE", LearningRateRule::kAdaScale)
      .finalize();

  const BatchRule d;
  Record<BatchRule> rule(module, "BatchRule",
                         R"(What becomes of the batch when the number of workers changes.

samples: of one step, over all workers: what the learning rate was chosen for. workers: with how
many; more of them then have more samples in a step. 0: a step keeps its samples, and each worker
has less the more they are. samples_max: of a step; 0: no bound. micro_batch_max: samples that a
worker can compute at a time; 0: no bound. learning_rate: a LearningRateRule.)");
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
                    R"(One step, as one worker sees it.

samples: over all workers. share: of this worker, what it takes of the ledger. micro_batches: to
compute its share in, one after another. learning_rate_factor: on the learning rate. progress: by
how many steps a schedule of the learning rate goes on; 1 but for ADA_SCALE.)")
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
      "The step of worker `rank` of `workers`, a StepBatch. noise: for ADA_SCALE alone.\n"
      "Raises InvalidArgument.");
}

}  // namespace ffdl::python
