#pragma once

#include <span>
#include <vector>

#include "ffdl/job_link.h"
#include "ffdl/step_meter.h"

namespace ffdl::steer {

// How fast a job was with each number of workers and each batch: the mean of the last hundred steps
// or so, of the sizes that were measured last.
class BatchSpeeds {
 public:
  // One over steps of several batches says nothing.
  void add(const Measurement& measured);
  // What somebody else has measured, of what this one has not.
  void learn(std::span<const MeasuredSpeed> others);

  const std::vector<MeasuredSpeed>& all() const { return speeds_; }

 private:
  void forget_oldest();

  std::vector<MeasuredSpeed> speeds_;  // the latest at the end
};

}  // namespace ffdl::steer
