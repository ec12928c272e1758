#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/ps/learner.h"

namespace ffdl::ps {

// A gradient between start_push() and the end of its push, with its own copies of samples, row
// numbers and the lists of tables and parts. The values stay the caller's.
// Threads: one at a time. Owns: the copies; their memory serves the next push again.
class StartedPush {
 public:
  // `version`: the version of the weights from which the gradient was computed.
  void begin(const Gradient& given, std::span<const SampleRange> named, uint64_t version);

  const Gradient& gradient() const { return gradient_; }
  std::span<const SampleRange> samples() const { return samples_; }
  uint64_t version() const { return version_; }

  // Replaces all values by those that are one after the other from `values` on.
  void move_values_to(const std::byte* values);

 private:
  Gradient gradient_ = Gradient::slot();
  std::vector<SampleRange> samples_;
  std::vector<uint64_t> rows_;  // of all tables, one table after the other
  std::vector<RowGradient> tables_;
  std::vector<PartGradient> parts_;
  uint64_t version_ = 0;
};

}  // namespace ffdl::ps
