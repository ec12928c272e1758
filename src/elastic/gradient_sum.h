#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/device_side.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// The gradient of a member's share that comes in several parts, as the share is too large to be
// computed at once: gradient accumulation. Parts are added in their order, in float or double, and
// divided once: of one part the mean has the bits that it was given with.
// Threads: one at a time. Owns: from the first part on one more gradient (as float32 where it is of
// 16 bits), where the gradients lie.
// Errors: those of Gpu; nothing can fail where there is none.
class GradientSum {
 public:
  // Of these buffers, of floating dtypes, whose memory outlives this: that of the GPU, if there is
  // one, whose default stream adds and divides.
  explicit GradientSum(std::span<const Buffer> gradients, base::Gpu gpu = {})
      : gradients_(gradients), gpu_(gpu) {}

  // The buffers hold the mean over these samples, and are not needed any more. 0: they are not
  // read.
  Status add(uint64_t samples);
  // Of all parts of this step.
  uint64_t samples() const { return samples_; }
  // Makes the buffers the mean over all of them, of which there are some. The next step begins.
  Status finish();
  // So it does, and what was added is forgotten.
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
  base::SideMemory on_gpu_;  // the sums of all buffers there
  // Of all buffers, one after the other.
  std::vector<float> floats_;    // but for those of float64
  std::vector<double> doubles_;  // which are here
  uint64_t samples_ = 0;
  uint64_t whole_ = 0;  // of the first part, which counts once
};

}  // namespace ffdl::elastic
