#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cluster/plan/placement.h"
#include "cluster/simulator/sim_job.h"
#include "cluster/simulator/simulator.h"

namespace ffdl::cluster {

// The allocations that a policy requests from now on.
struct Decision {
  std::vector<int> workers;   // workers of each active job; 0: none
  std::vector<size_t> order;  // the order in which jobs whose number changed are placed
  PlacementRule rule = PlacementRule::kPack;
  std::vector<bool> dropped{};  // jobs that are turned away; empty: none
  // The places of each job; empty: the rule places the jobs whose number changed.
  std::vector<Allocation> places{};
};

// Decides again at each interval. Threads: none.   Owns: its own memory of the jobs.
class Policy {
 public:
  virtual ~Policy() = default;

  // Decides. active: submitted and not done, in the order of the workload. seconds: since the last
  // decision.
  virtual Result<Decision> decide(std::span<SimJob* const> active, double now_s,
                                  double seconds) = 0;
};

std::unique_ptr<Policy> make_policy(const ClusterOptions& options);

}  // namespace ffdl::cluster
