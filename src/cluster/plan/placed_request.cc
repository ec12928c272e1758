#include "cluster/plan/placed_request.h"

#include <string_view>
#include <unordered_map>

#include "base/errors.h"

namespace ffdl::cluster {
namespace {

// The indices of nodes by their names.
using NodeIndices = std::unordered_map<std::string_view, int>;

Result<NodeIndices> indices_of(std::span<const NodeWorkers> cluster) {
  NodeIndices indices;
  for (const NodeWorkers& node : cluster) {
    if (node.workers < 0) {
      return base::invalid_argument("plan jobs: {} workers available on node '{}'; give 0 or more",
                                    node.workers, node.node);
    }
    if (!indices.try_emplace(node.node, static_cast<int>(indices.size())).second) {
      return base::invalid_argument("plan jobs: node '{}' is listed twice; list each node once",
                                    node.node);
    }
  }
  return indices;
}

Result<int> index_of(const JobRequest& job, const std::string& node, const NodeIndices& indices) {
  const auto found = indices.find(node);
  if (found != indices.end()) return found->second;
  return base::invalid_argument(
      "plan job '{}': node '{}' is not among the {} nodes; name one of these", job.name, node,
      indices.size());
}

}  // namespace

Result<std::vector<PlacedRequest>> to_placed(std::span<const JobRequest> requests,
                                             std::span<const NodeWorkers> cluster) {
  FFDL_ASSIGN_OR_RETURN(const NodeIndices indices, indices_of(cluster));
  std::vector<PlacedRequest> placed;
  placed.reserve(requests.size());
  for (const JobRequest& job : requests) {
    PlacedRequest& one = placed.emplace_back();
    one.name = job.name;
    one.sizes = job.sizes;
    one.may_wait = job.may_wait;
    one.current_workers = job.current_workers;
    one.switch_cost = job.switch_cost;
    one.may_move = job.may_move;
    one.is_admitted = job.is_admitted;
    for (const std::string& node : job.only_nodes) {
      FFDL_ASSIGN_OR_RETURN(one.only_nodes.emplace_back(), index_of(job, node, indices));
    }
    for (const NodeWorkers& now : job.current_nodes) {
      Place& place = one.current_nodes.emplace_back();
      FFDL_ASSIGN_OR_RETURN(place.node, index_of(job, now.node, indices));
      place.workers = now.workers;
    }
  }
  return placed;
}

std::vector<int> rooms_of(std::span<const NodeWorkers> cluster) {
  std::vector<int> rooms;
  rooms.reserve(cluster.size());
  for (const NodeWorkers& node : cluster) rooms.push_back(node.workers);
  return rooms;
}

std::vector<NodeWorkers> named(std::span<const Place> places,
                               std::span<const NodeWorkers> cluster) {
  std::vector<NodeWorkers> all;
  all.reserve(places.size());
  for (const Place& place : places) {
    all.push_back({cluster[static_cast<size_t>(place.node)].node, place.workers});
  }
  return all;
}

}  // namespace ffdl::cluster
