#pragma once

#include <deque>
#include <string>
#include <vector>

#include "cluster/simulator/sim_job.h"

namespace ffdl::cluster {

// Creates jobs of one small program: steps of 1 s at any batch of 8 to 64, ten epochs of 100 steps
// each.
class SimpleJobs {
 public:
  SimpleJobs() : application_(Application::from_profile(profile()).value()) {}

  SimJob& add(int workers, int64_t batch = 8) {
    const auto index = static_cast<uint32_t>(jobs_.size());
    requests_.push_back({"job" + std::to_string(index), "simple", 0, workers, batch});
    SimJob job;
    job.index = index;
    job.request = &requests_.back();
    job.application = &application_;
    job.estimator = &estimator_;
    jobs_.push_back(job);
    active_.push_back(&jobs_.back());
    return jobs_.back();
  }

  std::vector<SimJob*>& active() { return active_; }
  SpeedEstimator& estimator() { return estimator_; }

 private:
  static ApplicationProfile profile() {
    ApplicationProfile simple;
    simple.name = "simple";
    for (int workers = 1; workers <= 8; ++workers) {
      for (const int64_t local : {1, 64}) simple.placed.push_back({{workers}, local, 1.0, 0.0});
    }
    for (const int64_t batch : {8, 64}) {
      for (int epoch = 1; epoch <= 10; ++epoch) {
        simple.epochs[batch].push_back({100.0 * epoch, 1, 0});
      }
    }
    return simple;
  }

  Application application_;
  SpeedEstimator estimator_;
  std::deque<WorkloadJob> requests_;
  std::deque<SimJob> jobs_;
  std::vector<SimJob*> active_;
};

}  // namespace ffdl::cluster
