#pragma once

#include <string>
#include <vector>

#include "benchmarks/dense_net.h"
#include "benchmarks/harness/memory.h"
#include "benchmarks/rescale/training.h"
#include "ffdl/session.h"

// Children of bench_rescale that train.
namespace ffdl::bench {

// A model of `layers` dense layers, 1000 wide, with mini-batches of `rows` rows.
struct Shape {
  int layers = 10;
  int rows = 32;
};

// The model under momentum: 8 MB of state per layer.
class DenseModel final : public Trainable {
 public:
  explicit DenseModel(const Shape& shape);

  std::vector<Buffer> state() override;
  std::vector<Buffer> gradients() override;
  void apply() override;
  size_t state_bytes() const { return weights_.bytes() + momentum_.bytes(); }
  void compute() { net_.compute(weights_.floats(), gradient_.floats()); }

 private:
  DenseNet net_;
  Memory weights_;
  Memory momentum_;
  Memory gradient_;
};

// Starts this program again in the role "trainer".
StartWorker trainers(const Shape& shape);

// Runs a worker as StartWorker describes it. Arguments: FOLDER ID LAYERS ROWS.
Status play_trainer(const std::vector<std::string>& arguments);

// Runs one of two members of a job that train with a session and without it. For "session" or
// "bare" it does one such step and answers with the seconds. Arguments: FOLDER RANK LAYERS ROWS
// RANKS.
Status play_twin(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
