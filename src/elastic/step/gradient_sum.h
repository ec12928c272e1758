#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/device_side.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// Sums a member's gradient over several parts of its share, if the share is too large for one
// computation (gradient accumulation). Parts are added in order, in float or double, and divided
// once. With one part, the mean has the bits of that part.
// Threads: one at a time. Owns: from the first part on, one more gradient in the same memory
// (float32 for 16-bit types).
// Errors: those of Gpu; none without a GPU.
class GradientSum {
 public:
  // Sums these buffers of floating dtypes, whose memory must outlive this object. With a GPU, they
  // are in its memory, and its default stream adds and divides.
  explicit GradientSum(std::span<const Buffer> gradients, base::Gpu gpu = {})
      : gradients_(gradients), gpu_(gpu) {}

  // Adds the buffers, which hold the mean over `samples` samples and are not needed afterwards. 0:
  // they are not read.
  Status add(uint64_t samples);
  // Returns the samples of all parts of this step.
  uint64_t samples() const { return samples_; }
  // Sets the buffers to the mean over all parts, at least one. Begins the next step.
  Status finish();
  // Drops all parts and begins the next step.
  void drop() { samples_ = 0; }

 private:
  template <class T>
  void add_to(std::vector<T>& sum, double weight);
  template <class T>
  void divide(const std::vector<T>& sum, double by) const;
  Status add_on_gpu(double weight);
  Status divide_on_gpu(double by) const;

  const std::span<const Buffer> gradients_;
  const base::Gpu gpu_;
  base::SideMemory on_gpu_;  // sums of all buffers, on the GPU
  // Sums of all buffers, one after the other:
  std::vector<float> floats_;    // of all dtypes but float64
  std::vector<double> doubles_;  // of float64
  uint64_t samples_ = 0;
  uint64_t whole_ = 0;  // samples of the first part, whose weight is 1
};

}  // namespace ffdl::elastic
