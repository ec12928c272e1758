#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "digits/dataset.h"
#include "layers/network.h"
#include "training/task.h"

namespace digits {

// The network of this example: two convolutions, a pooling, two linear layers.
// Threads: one at a time.
class Model {
 public:
  Model();

  std::size_t parameters() const { return network_.parameters(); }
  void initialize(std::span<float> weights, uint64_t seed) const;

  // Writes the mean gradient over the mini-batch to `gradient` and returns the mean loss.
  float gradient(std::span<const float> weights, const Samples& mini_batch,
                 std::span<float> gradient);

  training::Score evaluate(std::span<const float> weights, const Samples& samples);

 private:
  layers::Network network_;
  std::vector<float> logit_gradients_;
};

}  // namespace digits
