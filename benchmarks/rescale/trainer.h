#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/dense_net.h"
#include "benchmarks/harness/memory.h"
#include "benchmarks/rescale/pause.h"
#include "ffdl/session.h"

// Children of bench_rescale that train.
namespace ffdl::bench {

// A model of so many dense layers, 1000 wide, whose mini-batch has so many rows.
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

// Steps as one line of text.
std::string write_steps(const std::vector<StepTime>& steps);
std::vector<StepTime> read_steps(const std::string& line);

// FOLDER ID LAYERS ROWS: one member of a job, which trains until it is killed or leaves. Asked
// "after M K" it answers when its last K steps had M members each; "report" gives the
// steps since the last report, as read_steps() reads them; "leave" makes it leave.
Status play_trainer(const std::vector<std::string>& arguments);

// FOLDER RANK LAYERS ROWS: one of two members of a job that train by a session and without: asked
// "session" or "bare" it does one such step and answers with its seconds.
Status play_twin(const std::vector<std::string>& arguments);

}  // namespace ffdl::bench
