#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ffdl/cluster_simulator.h"
#include "plan/placement.h"
#include "plan/sim_job.h"

namespace ffdl::plan {

// What a policy wants from now on.
struct Decision {
  std::vector<int> workers;   // of each active job; 0: none
  std::vector<size_t> order;  // in which jobs whose number changed are placed
  PlacementRule rule = PlacementRule::kPack;
  std::vector<bool> dropped{};  // who is turned away; empty: nobody
  // Where each job lies; empty: those whose number changed are placed by the rule.
  std::vector<Allocation> places{};
};

// Decides again at each interval. Threads: none.   Owns: its own memory of the jobs.
class Policy {
 public:
  virtual ~Policy() = default;

  // active: submitted and not done, in the order of the workload. seconds: since the decision
  // before.
  virtual Result<Decision> decide(std::span<SimJob* const> active, double now_s,
                                  double seconds) = 0;
};

std::unique_ptr<Policy> make_policy(const ClusterOptions& options);

}  // namespace ffdl::plan
