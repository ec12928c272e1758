#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "digits/dataset.h"
#include "ffdl/session.h"
#include "nlc/corpus.h"
#include "training/task.h"

// The examples' models as sessions train them: their state, their gradients, and their updates.
namespace elastic {

class Model : public ffdl::Trainable {
 public:
  virtual uint64_t samples() const = 0;  // number of training samples

  // Writes the mean gradient over these training samples, in the step after `step`, and returns the
  // mean loss. Without samples it does nothing. The result has the same bits on every worker.
  virtual float compute(std::span<const uint64_t> samples, uint64_t step) = 0;

  virtual std::span<const float> weights() const = 0;
  virtual training::Score validate() = 0;
  virtual training::Score test() = 0;
  virtual uint64_t test_samples() const = 0;
};

struct ModelOptions {
  uint64_t seed = 1;
  float learning_rate = 0;  // in the first step
};

// Returns the digits' network under momentum, with a constant learning rate. `split` outlives it.
std::unique_ptr<Model> digits_model(const digits::Split& split, const ModelOptions& options);

// Returns the queries' classifier under Adam; its learning rate falls linearly to zero in `steps`
// steps. Its table is an eighth of that of examples/nlc, since a session averages the whole
// gradient.
std::unique_ptr<Model> nlc_model(nlc::Corpus corpus, const ModelOptions& options, uint64_t steps);

}  // namespace elastic
