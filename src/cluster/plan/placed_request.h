#pragma once

#include <span>
#include <string>
#include <vector>

#include "ffdl/cluster/job_planner.h"

namespace ffdl::cluster {

// Workers on one node. The node is an index into the list of nodes.
struct Place {
  int node = 0;
  int workers = 0;

  bool operator==(const Place&) const = default;
};

// A JobRequest whose nodes are indices into the list of nodes, as the search for places needs them.
struct PlacedRequest {
  std::string name{};
  std::vector<SizeOption> sizes{};
  bool may_wait = false;
  int current_workers = 0;
  double switch_cost = 0;
  std::vector<int> only_nodes{};
  std::vector<Place> current_nodes{};
  bool may_move = true;
  bool is_admitted = false;
};

// Replaces the names of nodes by indices. Errors: kInvalidArgument (a node below 0, two nodes of
// one name, a job on a node that is not in the cluster).
Result<std::vector<PlacedRequest>> to_placed(std::span<const JobRequest> requests,
                                             std::span<const NodeWorkers> cluster);

// Returns the room of each node.
std::vector<int> rooms_of(std::span<const NodeWorkers> cluster);
// Returns the places with the names of their nodes.
std::vector<NodeWorkers> named(std::span<const Place> places, std::span<const NodeWorkers> cluster);

}  // namespace ffdl::cluster
