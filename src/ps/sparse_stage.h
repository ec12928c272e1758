#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/sparse_gradient.h"
#include "ffdl/status.h"
#include "ps/touched.h"

namespace ffdl::ps {

// Brings a SparseGradient into the one form that is published: every element once, in order.
// Rows that come again are added up here, before publication: a fold that is repeated after a
// crash could not do it twice.
// Threads: one at a time. Owns: the values, until the next stage().
class SparseStage {
 public:
  // Errors: kInvalidArgument: sizes that do not fit, rows outside of the parameters, overlaps.
  Status stage(const SparseGradient& gradient, uint64_t parameters);

  std::span<const TouchedRange> ranges() const { return ranges_; }
  // The elements of all ranges, one range after the other.
  std::span<float> values() { return values_; }

 private:
  struct Part {
    uint64_t begin;
    uint64_t count;
    const float* values;
  };

  Status collect_rows(const RowGradient& rows, uint64_t parameters);
  Status collect_dense(const DenseGradient& dense, uint64_t parameters);
  Status add_up();

  std::vector<Part> parts_;
  std::vector<TouchedRange> ranges_;
  std::vector<float> values_;
};

}  // namespace ffdl::ps
