#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace ffdl::bench {

// A learner's computation: forward and backward through equal dense layers with ReLU. The weights
// and the gradient are flat vectors, read and written in place. Compiled for this processor, so
// that a slow learner does not hide a slow server.
// Threads: one.
class DenseNet {
 public:
  // `rows` vectors go through the layers together.
  DenseNet(int layers, int width, int rows);
  ~DenseNet();

  size_t parameters() const;
  // Weights that neither blow values up nor let them vanish.
  void initialise(std::span<float> weights) const;
  // Overwrites `gradient`, whole.
  void compute(std::span<const float> weights, std::span<float> gradient);

 private:
  struct Layers;  // Eigen's objects must not meet code that is compiled for another processor
  std::unique_ptr<Layers> layers_;
};

}  // namespace ffdl::bench
