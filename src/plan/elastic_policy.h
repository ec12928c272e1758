#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ffdl/job_scheduler.h"
#include "plan/policies.h"

namespace ffdl::plan {

// The planner as a policy: sizes are worth what the models fitted so far say, and plan_jobs
// chooses.
//
// Objective throughput is the paper's: the sum of the scaling factors, of as many jobs as can have
// a worker each, first come first served. Objective goodput divides each job's factor by the square
// root of the time it would still take alone: between serving whoever gains most and serving
// whoever ends soonest, either of which leaves jobs behind. Here a job may be stopped and wait.
// A job that asks for one worker is never given more.
// Where nodes are planned (ClusterOptions::plans_nodes) a size is worth more on as few nodes as
// hold it than on one more, by what the models say of the network.
class ElasticPolicy : public Policy {
 public:
  explicit ElasticPolicy(const ClusterOptions& options) : options_(options) {}

  Result<Decision> decide(std::span<SimJob* const> active, double now_s, double seconds) override;

 private:
  // Progress or samples a second by number of workers, from 1 on (0: not possible), and what they
  // follow from: they are computed again only when that changes.
  struct Rates {
    size_t version = SIZE_MAX;
    GradientStatistics gradients;
    std::vector<double> of;
    std::vector<double> across;  // on one node more than they need; where nodes are planned
  };

  const Rates& rates(const SimJob& job);
  int workers_max() const;  // of a job
  int nodes_for(int workers) const;
  // On that many nodes more than they need.
  double known_rate(const SimJob& job, int workers, int nodes_more) const;
  double expected_rate(const SimJob& job, const BatchQuestion& question, int workers,
                       int nodes_more) const;
  JobRequest request_for(const SimJob& job);
  Result<Schedule> schedule(std::span<const ScheduledJob> jobs, WhenFull when_full) const;

  const ClusterOptions options_;
  std::map<uint32_t, Rates> rates_;  // by job
};

}  // namespace ffdl::plan
