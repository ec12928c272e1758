#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace ffdl::bench {

// Computes as a learner does: forward and backward through equal dense layers with ReLU. The
// weights and the gradient are flat vectors, read and written in place. Compiled for this
// processor, so that a slow learner does not hide a slow server.
// Threads: one.
class DenseNet {
 public:
  // Creates a network that takes `rows` vectors through the layers together.
  DenseNet(int layers, int width, int rows);
  ~DenseNet();

  size_t parameters() const;
  // Fills `weights` with values for which the activations neither explode nor vanish.
  void initialise(std::span<float> weights) const;
  // Overwrites the whole `gradient`.
  void compute(std::span<const float> weights, std::span<float> gradient);

 private:
  struct Layers;  // keeps Eigen's objects from code that is compiled for another processor
  std::unique_ptr<Layers> layers_;
};

}  // namespace ffdl::bench
