#pragma once

#include "scaling/job_profile.h"
#include "scaling/measurement.h"

namespace ffdl::scaling {

// Adds measurements up to a point of a profile. Those of other sizes are left out. So is the first
// one, since it includes one-time loading.
class ProfileSums {
 public:
  ProfileSums(int workers, uint64_t steps) : workers_(workers), steps_(steps) {}

  void add(const Measurement& measured);
  bool is_done() const { return sums_.steps >= steps_; }
  ProfilePoint point() const;

 private:
  const int workers_;
  const uint64_t steps_;
  bool is_warm_ = false;
  Measurement sums_;
  double communication_s_ = 0;
};

}  // namespace ffdl::scaling
