#include "jobs/decide_allocations.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ffdl/job_scheduler.h"
#include "jobs/learn_sizes.h"

namespace ffdl::jobs {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// There is nothing to be decided: it was turned away, or cannot be asked what it needs.
bool is_decided(const JobFacts& job) {
  return job.is_away || (job.answer && job.answer->is_dropped);
}

// Whether it was told a size that it has not come to yet: it may start workers at any time.
bool is_growing(const JobFacts& job) {
  return job.granted() > 0 && (job.is_starting || job.wanted < job.granted());
}

// Whether some of its processes were asked to end and are there still: on which nodes is not known.
bool is_shrinking(const JobFacts& job) {
  return job.granted() > 0 && std::max(job.running, job.wanted) > job.granted();
}

// The nodes of a snapshot by number, and after them one without room: that of all who name a node
// that is not there.
class Nodes {
 public:
  explicit Nodes(const Snapshot& snapshot) : offers_(snapshot.nodes) {}

  int number_of(const std::string& name) const {
    const auto found =
        std::find_if(offers_.begin(), offers_.end(),
                     [&](const NodeAllocation& offer) { return offer.node == name; });
    return static_cast<int>(found - offers_.begin());
  }
  size_t count() const { return offers_.size() + 1; }
  std::vector<int> rooms() const {
    std::vector<int> rooms;
    for (const NodeAllocation& offer : offers_) rooms.push_back(offer.workers);
    rooms.push_back(0);
    return rooms;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const NodeAllocation& offer : offers_) names.push_back(offer.node);
    names.push_back("no node");
    return names;
  }
  // What lies on those nodes that are there.
  std::vector<NodeWorkers> known(const std::vector<NodeAllocation>& places) const {
    std::vector<NodeWorkers> known;
    for (const NodeAllocation& place : places) {
      const int node = number_of(place.node);
      if (static_cast<size_t>(node) < offers_.size()) known.push_back({node, place.workers});
    }
    return known;
  }
  std::vector<NodeAllocation> named(const std::vector<NodeWorkers>& places) const {
    std::vector<NodeAllocation> named;
    for (const NodeWorkers& place : places) {
      named.push_back({offers_[static_cast<size_t>(place.node)].node, place.workers});
    }
    return named;
  }

 private:
  const std::vector<NodeAllocation>& offers_;
};

// Where a job was told that its workers are.
std::vector<NodeWorkers> told(const JobFacts& job, const Nodes& nodes) {
  return job.answer ? nodes.known(job.answer->nodes) : std::vector<NodeWorkers>();
}

// What a job may have on each node: where it was told that it has workers, and anywhere those that
// are more, as they were asked to end.
std::vector<int> held(const JobFacts& job, const Nodes& nodes) {
  const int more = std::max(0, std::max(job.running, job.wanted) - job.granted());
  std::vector<int> held(nodes.count(), job.demand.node.empty() ? more : 0);
  if (!job.demand.node.empty()) {
    held[static_cast<size_t>(nodes.number_of(job.demand.node))] = more;
  }
  for (const NodeWorkers& place : told(job, nodes)) {
    held[static_cast<size_t>(place.node)] += place.workers;
  }
  return held;
}

ScheduledJob to_be_scheduled(const JobFacts& job, const Nodes& nodes,
                             const AutoscalerOptions& options) {
  ScheduledJob scheduled{{.name = job.demand.job,
                          .sizes = learn_sizes(job.demand.sizes, job.speeds),
                          .current_workers = job.granted(),
                          .current_nodes = told(job, nodes),
                          .may_move = false},
                         job.granted() > 0};
  if (!job.demand.node.empty()) {
    scheduled.request.only_nodes = {nodes.number_of(job.demand.node)};
  }
  discount_switches(scheduled.request, seconds(options.switch_cost), seconds(options.horizon));
  return scheduled;
}

// The room that is left beside those of whom nothing is known but what they have.
std::vector<int> rooms_beside_those_away(const Snapshot& snapshot, const Nodes& nodes) {
  std::vector<int> rooms = nodes.rooms();
  for (const JobFacts& job : snapshot.jobs) {
    if (!job.is_away) continue;
    int elsewhere = std::max(job.running, job.wanted);  // than where it was told
    for (const NodeWorkers& place : told(job, nodes)) {
      int& room = rooms[static_cast<size_t>(place.node)];
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

// What is best, if all could have it at once.
Result<std::vector<JobAllocation>> best_allocations(const Snapshot& snapshot, const Nodes& nodes,
                                                    const AutoscalerOptions& options) {
  std::vector<ScheduledJob> scheduled;
  for (const JobFacts& job : snapshot.jobs) {
    if (!is_decided(job)) scheduled.push_back(to_be_scheduled(job, nodes, options));
  }
  FFDL_ASSIGN_OR_RETURN(const Schedule schedule,
                        schedule_placed_jobs(scheduled, rooms_beside_those_away(snapshot, nodes),
                                             options.when_full, {.node_names = nodes.names()}));
  std::vector<JobAllocation> best;
  size_t next = 0;
  for (const JobFacts& job : snapshot.jobs) {
    if (is_decided(job)) {
      best.push_back(*job.answer);
      continue;
    }
    const ScheduledShare& share = schedule.jobs[next++];
    best.push_back({job.demand.job, share.workers, share.batch, share.fate == JobFate::kDropped,
                    share.reason, nodes.named(share.nodes)});
  }
  return best;
}

// What of an allocation is more than the job has, on each node.
std::vector<int> taken(const JobFacts& job, const JobAllocation& allocation, const Nodes& nodes) {
  std::vector<int> taken(nodes.count());
  for (const NodeWorkers& place : nodes.known(allocation.nodes)) {
    taken[static_cast<size_t>(place.node)] += place.workers;
  }
  for (const NodeWorkers& place : told(job, nodes)) {
    int& more = taken[static_cast<size_t>(place.node)];
    more = std::max(0, more - place.workers);
  }
  return taken;
}

// Without room on some node: nothing may be taken there.
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
    take(held(job, nodes));  // until its processes have ended a job has what it had
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
    allocation.job = job.demand.job;
    if (!job.answer) allocation.reason = "others are about to make room for it";
  }
  return decision;
}

}  // namespace ffdl::jobs
