#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/ps/learner.h"
#include "ffdl/status.h"
#include "ps/segment/touched_ranges.h"

namespace ffdl::ps {

// Converts a sparse gradient to the form that is published: every element once, in order. Repeated
// rows are added up here, before publication. A fold that is repeated after a crash could not add
// them up again.
// Threads: one at a time. Owns: the values, until the next stage().
class SparseStage {
 public:
  // Errors: kInvalidArgument: sizes that do not fit, rows outside of the parameters, overlaps.
  Status stage(std::span<const RowGradient> tables, std::span<const PartGradient> parts,
               uint64_t parameters);

  std::span<const TouchedRange> ranges() const { return ranges_; }
  // Returns the elements of all ranges, one range after the other.
  std::span<float> values() { return values_; }

 private:
  struct Part {
    uint64_t begin;
    uint64_t count;
    const float* values;
  };

  Status collect_rows(const RowGradient& rows, uint64_t parameters);
  Status collect_part(const PartGradient& part, uint64_t parameters);
  Status add_up();

  std::vector<Part> parts_;
  std::vector<TouchedRange> ranges_;
  std::vector<float> values_;
};

}  // namespace ffdl::ps
