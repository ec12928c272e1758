#pragma once

#include <cstddef>
#include <span>

#include "layers/random.h"

namespace layers {

// Rows of a mini-batch, one sample after the other in memory (row-major). A view: owns no memory.
struct Batch {
  float* data = nullptr;
  int rows = 0;
  int columns = 0;
};

struct ConstBatch {
  ConstBatch() = default;
  ConstBatch(const float* data_in, int rows_in, int columns_in)
      : data(data_in), rows(rows_in), columns(columns_in) {}
  ConstBatch(Batch batch)  // NOLINT: implicit on purpose
      : ConstBatch(batch.data, batch.rows, batch.columns) {}

  const float* data = nullptr;
  int rows = 0;
  int columns = 0;
};

// The arguments of backward(): both ends of the forward pass, and the gradient at its output.
struct BackwardPass {
  ConstBatch input;
  ConstBatch output;
  ConstBatch output_gradient;
  Batch input_gradient;  // overwritten; its data is null if no caller needs it
};

// One layer of a network. It owns no parameters: the caller passes this layer's part of one flat
// span, so that weights can be in memory shared with other processes.
// Threads: one at a time; layers may keep scratch memory.
class Layer {
 public:
  virtual ~Layer() = default;

  // Return the floats per sample, in and out.
  virtual int inputs() const = 0;
  virtual int outputs() const = 0;

  virtual std::size_t parameters() const { return 0; }
  virtual void initialize(std::span<float> /*parameters*/, Random& /*random*/) const {}

  virtual void forward(std::span<const float> parameters, ConstBatch input, Batch output) = 0;

  // Overwrites `parameter_gradient`, which has the layout of `parameters`.
  virtual void backward(std::span<const float> parameters, const BackwardPass& pass,
                        std::span<float> parameter_gradient) = 0;
};

}  // namespace layers
