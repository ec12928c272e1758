#include "cluster/autoscaler/decide_allocations.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "cluster/autoscaler/learn_sizes.h"
#include "ffdl/cluster/job_planner.h"

namespace ffdl::cluster {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Returns true if there is nothing to decide: the job was turned away, or has no request to read.
bool is_decided(const JobFacts& job) {
  return job.is_away || (job.answer && job.answer->is_dropped);
}

// Returns true if the job has not reached its granted size yet: it may start workers at any time.
bool is_growing(const JobFacts& job) {
  return job.granted() > 0 && (job.is_starting || job.wanted < job.granted());
}

// Returns true if some of its processes were asked to end and still run; their nodes are not known.
bool is_shrinking(const JobFacts& job) {
  return job.granted() > 0 && std::max(job.running, job.wanted) > job.granted();
}

// The nodes of a snapshot, and after them one without a name or room. The last represents every
// node that does not exist.
class Nodes {
 public:
  explicit Nodes(const Snapshot& snapshot) : offers_(snapshot.nodes) {}

  size_t number_of(const std::string& name) const {
    const auto found = std::find_if(offers_.begin(), offers_.end(),
                                    [&](const NodeWorkers& offer) { return offer.node == name; });
    return static_cast<size_t>(found - offers_.begin());
  }
  bool has(const std::string& name) const { return number_of(name) < offers_.size(); }
  size_t count() const { return offers_.size() + 1; }
  std::vector<int> rooms() const {
    std::vector<int> rooms;
    for (const NodeWorkers& offer : offers_) rooms.push_back(offer.workers);
    rooms.push_back(0);
    return rooms;
  }
  // Returns the cluster with this room on each node.
  std::vector<NodeWorkers> cluster(const std::vector<int>& rooms) const {
    std::vector<NodeWorkers> cluster;
    for (size_t node = 0; node < offers_.size(); ++node) {
      cluster.push_back({offers_[node].node, rooms[node]});
    }
    cluster.push_back({"", rooms.back()});
    return cluster;
  }
  // Returns the places on nodes that exist.
  std::vector<NodeWorkers> known(const std::vector<NodeWorkers>& places) const {
    std::vector<NodeWorkers> known;
    std::copy_if(places.begin(), places.end(), std::back_inserter(known),
                 [&](const NodeWorkers& place) { return has(place.node); });
    return known;
  }

 private:
  const std::vector<NodeWorkers>& offers_;
};

// Returns the places of a job's workers in its answer.
std::vector<NodeWorkers> told(const JobFacts& job, const Nodes& nodes) {
  return job.answer ? nodes.known(job.answer->nodes) : std::vector<NodeWorkers>();
}

// Returns the workers that a job may have on each node. Those of its answer are on the answer's
// nodes. Further ones, which were asked to end, may be on any.
std::vector<int> held(const JobFacts& job, const Nodes& nodes) {
  const int more = std::max(0, std::max(job.running, job.wanted) - job.granted());
  const std::vector<std::string>& only = job.request.only_nodes;
  std::vector<int> held(nodes.count(), only.empty() ? more : 0);
  for (const std::string& node : only) held[nodes.number_of(node)] = more;
  for (const NodeWorkers& place : told(job, nodes)) {
    held[nodes.number_of(place.node)] += place.workers;
  }
  return held;
}

JobRequest to_be_planned(const JobFacts& job, const Nodes& nodes,
                         const AutoscalerOptions& options) {
  JobRequest request{.name = job.request.name,
                     .sizes = learn_sizes(job.request.sizes, job.speeds),
                     .current_workers = job.granted(),
                     .current_nodes = told(job, nodes),
                     .may_move = false,
                     .is_admitted = job.granted() > 0};
  for (const std::string& node : job.request.only_nodes) {
    request.only_nodes.push_back(nodes.has(node) ? node : "");
  }
  discount_switches(request, seconds(options.switch_cost), seconds(options.horizon));
  return request;
}

// Returns the room that is left beside the jobs without a request.
std::vector<int> rooms_beside_those_away(const Snapshot& snapshot, const Nodes& nodes) {
  std::vector<int> rooms = nodes.rooms();
  for (const JobFacts& job : snapshot.jobs) {
    if (!job.is_away) continue;
    int elsewhere = std::max(job.running, job.wanted);  // beyond the places of its answer
    for (const NodeWorkers& place : told(job, nodes)) {
      int& room = rooms[nodes.number_of(place.node)];
      room = std::max(0, room - place.workers);
      elsewhere -= place.workers;
    }
    for (; elsewhere > 0; --elsewhere) {
      int& roomiest = *std::max_element(rooms.begin(), rooms.end());
      roomiest = std::max(0, roomiest - 1);
    }
  }
  return rooms;
}

// Returns the best allocations if all jobs could have them at once.
Result<std::vector<JobAllocation>> best_allocations(const Snapshot& snapshot, const Nodes& nodes,
                                                    const AutoscalerOptions& options) {
  std::vector<JobRequest> requests;
  for (const JobFacts& job : snapshot.jobs) {
    if (!is_decided(job)) requests.push_back(to_be_planned(job, nodes, options));
  }
  FFDL_ASSIGN_OR_RETURN(const Plan plan,
                        plan_jobs(requests, nodes.cluster(rooms_beside_those_away(snapshot, nodes)),
                                  {.when_full = options.when_full}));
  std::vector<JobAllocation> best;
  size_t next = 0;
  for (const JobFacts& job : snapshot.jobs) {
    if (is_decided(job)) {
      best.push_back(*job.answer);
      continue;
    }
    // Only these are published; the rest is for readers of a plan.
    const JobAllocation& planned = plan.jobs[next++];
    best.push_back({.name = job.request.name,
                    .workers = planned.workers,
                    .batch = planned.batch,
                    .is_dropped = planned.is_dropped,
                    .reason = explain(planned),
                    .nodes = planned.nodes});
  }
  return best;
}

// Returns the workers of an allocation beyond the job's present ones, on each node.
std::vector<int> taken(const JobFacts& job, const JobAllocation& allocation, const Nodes& nodes) {
  std::vector<int> taken(nodes.count());
  for (const NodeWorkers& place : nodes.known(allocation.nodes)) {
    taken[nodes.number_of(place.node)] += place.workers;
  }
  for (const NodeWorkers& place : told(job, nodes)) {
    int& more = taken[nodes.number_of(place.node)];
    more = std::max(0, more - place.workers);
  }
  return taken;
}

// Returns true if the workers fit. A node without an entry in `free` has no room.
bool fits(const std::vector<int>& more, const std::vector<int>& free) {
  for (size_t node = 0; node < more.size(); ++node) {
    if (more[node] > 0 && (node >= free.size() || more[node] > free[node])) return false;
  }
  return true;
}

}  // namespace

Result<AllocationDecision> decide_allocations(const Snapshot& snapshot,
                                              const AutoscalerOptions& options) {
  const Nodes nodes(snapshot);
  AllocationDecision decision;
  FFDL_ASSIGN_OR_RETURN(decision.jobs, best_allocations(snapshot, nodes, options));
  std::vector<int> free = nodes.rooms();
  const auto take = [&](const std::vector<int>& workers) {
    for (size_t node = 0; node < free.size(); ++node) free[node] -= workers[node];
  };
  for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
    const JobFacts& job = snapshot.jobs[i];
    JobAllocation& allocation = decision.jobs[i];
    if (allocation.workers < job.granted() && is_growing(job)) {
      allocation = *job.answer;
      decision.is_settled = false;
    }
    take(held(job, nodes));  // a job keeps its workers until their processes have ended
  }
  for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
    const JobFacts& job = snapshot.jobs[i];
    JobAllocation& allocation = decision.jobs[i];
    const std::vector<int> more = taken(job, allocation, nodes);
    if (fits(more, free) && (!is_shrinking(job) || fits(more, {}))) {
      take(more);
      continue;
    }
    decision.is_settled = false;
    allocation = job.answer.value_or(JobAllocation{});
    allocation.name = job.request.name;
    if (!job.answer) allocation.reason = "other jobs are about to make room for it";
  }
  return decision;
}

}  // namespace ffdl::cluster
