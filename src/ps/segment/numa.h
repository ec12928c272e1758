#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"
#include "ps/segment/placement.h"

struct hwloc_bitmap_s;
struct hwloc_topology;

namespace ffdl::ps {

// Returns true if a list like "0-1,4" names more than one NUMA node.
bool names_several_nodes(std::string_view list);
// Returns true if more than one NUMA node of this machine has processors. Reads one small file;
// loading a topology takes milliseconds.
bool has_several_nodes();

// The NUMA nodes of a machine, and binding to them.
// Threads: const methods from any. Owns: hwloc's topology.
class NumaTopology {
 public:
  // Loads the topology of this machine, within its cgroup and the processors that the calling
  // thread may use.
  static Result<NumaTopology> load();
  // Makes the topology that hwloc describes ("node:2 core:4 pu:2"), within the processors `usable`
  // ("0-3"; empty: all).
  static Result<NumaTopology> synthetic(const std::string& description,
                                        const std::string& usable = "");

  const std::vector<NumaNode>& nodes() const { return nodes_; }

  // Requests that new pages of this memory are taken from the node while it has free ones.
  Status bind_memory(const NodeMemory& memory) const;
  // Restricts the calling thread to the usable cores of the node.
  Status bind_this_thread(int node) const;

 private:
  struct Free {
    void operator()(hwloc_topology* topology) const;
    void operator()(hwloc_bitmap_s* set) const;
  };
  using Topology = std::unique_ptr<hwloc_topology, Free>;
  using Bitmap = std::unique_ptr<hwloc_bitmap_s, Free>;

  NumaTopology(Topology topology, Bitmap usable);
  void find_nodes();

  Topology topology_;
  Bitmap usable_;
  std::vector<NumaNode> nodes_;  // sorted by number
};

// Returns the node of the page at each address, -1 if the kernel does not report it.
std::vector<int> nodes_of_pages(std::span<void* const> addresses);
// Returns true if the memory at this address has a placement policy.
bool has_memory_policy(void* address);

}  // namespace ffdl::ps
