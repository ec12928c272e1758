#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ffdl/cluster/job_planner.h"

// Nodes that are named by their numbers, "node 0" and so on.
namespace ffdl::testing {

inline std::string node_name(int number) { return "node " + std::to_string(number); }

inline size_t number_of(const NodeWorkers& node) { return std::stoul(node.node.substr(5)); }

// Returns workers on nodes: pairs of a node's number and its workers.
inline std::vector<NodeWorkers> at(const std::vector<std::pair<int, int>>& places) {
  std::vector<NodeWorkers> nodes;
  for (const auto& [number, workers] : places) nodes.push_back({node_name(number), workers});
  return nodes;
}

// Returns a cluster of nodes with this room.
inline std::vector<NodeWorkers> nodes_of(const std::vector<int>& rooms) {
  std::vector<NodeWorkers> nodes;
  for (const int room : rooms) nodes.push_back({node_name(static_cast<int>(nodes.size())), room});
  return nodes;
}

}  // namespace ffdl::testing
