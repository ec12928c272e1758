#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ffdl/status.h"
#include "layers/layer.h"

namespace layers {

// Returns a batch of `rows` in `storage`, which keeps its memory from one mini-batch to the next.
Batch batch_in(std::vector<float>& storage, int rows, int columns);

// A sequence of layers. Their parameters are in one flat span, in the order of the layers.
// Threads: one at a time. Owns: the layers and the activations of the last forward pass.
class Network {
 public:
  // Stacks layers.
  // Errors: kInvalidArgument if a layer's inputs are not the outputs of the previous one.
  static ffdl::Result<Network> stack(std::vector<std::unique_ptr<Layer>> layers);

  int inputs() const { return layers_.front()->inputs(); }
  int outputs() const { return layers_.back()->outputs(); }
  std::size_t parameters() const { return parameters_; }
  void initialize(std::span<float> parameters, Random& random) const;

  // Returns the output, valid until the next call. `input` must stay valid until backward() has
  // returned.
  ConstBatch forward(std::span<const float> parameters, ConstBatch input);

  // Computes the gradient of the last forward(), with the same parameters. Overwrites the whole
  // `parameter_gradient`.
  void backward(std::span<const float> parameters, ConstBatch output_gradient,
                std::span<float> parameter_gradient);

 private:
  explicit Network(std::vector<std::unique_ptr<Layer>> layers);

  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::size_t> offsets_;  // of each layer's parameters
  std::size_t parameters_ = 0;
  ConstBatch input_;
  std::vector<std::vector<float>> activations_;  // activations_[i]: output of layer i
  std::vector<std::vector<float>> gradients_;  // gradients_[i]: at the input of layer i; [0] unused
};

// Returns the mean over the rows of -log softmax(logits)[label]. Writes its gradient with respect
// to the logits, unless `gradient.data` is null.
float softmax_cross_entropy(ConstBatch logits, std::span<const int> labels, Batch gradient);

// Returns the number of rows with their largest value at their label.
int count_correct(ConstBatch logits, std::span<const int> labels);

}  // namespace layers
