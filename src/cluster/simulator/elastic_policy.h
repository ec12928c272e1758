#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "cluster/simulator/policies.h"
#include "ffdl/cluster/job_planner.h"

namespace ffdl::cluster {

// Implements the planner as a policy. The models fitted so far value the sizes, and plan_jobs()
// chooses.
//
// Objective throughput is the paper's: the sum of the scaling factors, of as many jobs as can have
// a worker each, first come first served. Objective goodput divides each job's factor by the square
// root of the time it would still take alone. It is a compromise between serving the job that gains
// most and the job that ends soonest, either of which leaves jobs behind. Here a job may be stopped
// and wait.
// A job that asks for one worker gets no more.
// If nodes are planned (ClusterOptions::plans_nodes), a size has more value on as few nodes as hold
// it than on one more. The models of the network give the difference.
class ElasticPolicy : public Policy {
 public:
  explicit ElasticPolicy(const ClusterOptions& options);

  Result<Decision> decide(std::span<SimJob* const> active, double now_s, double seconds) override;

 private:
  // Progress or samples a second by number of workers, from 1 on (0: not possible), with their
  // inputs. They are computed again only when the inputs change.
  struct Rates {
    size_t version = SIZE_MAX;
    GradientStatistics gradients;
    std::vector<double> of;
    std::vector<double> across;  // one node more than they need; if nodes are planned
  };

  const Rates& rates(const SimJob& job);
  int workers_max() const;  // limit of a job
  int nodes_for(int workers) const;
  // Returns the rate on `nodes_more` nodes beyond those needed.
  double known_rate(const SimJob& job, int workers, int nodes_more) const;
  double expected_rate(const SimJob& job, const BatchQuestion& question, int workers,
                       int nodes_more) const;
  JobRequest request_for(const SimJob& job);
  Result<Plan> plan(std::span<const JobRequest> jobs, WhenFull when_full) const;

  const ClusterOptions options_;
  std::vector<NodeWorkers> nodes_;   // named by their numbers; one without a name: not planned
  std::map<uint32_t, Rates> rates_;  // keyed by job
};

}  // namespace ffdl::cluster
