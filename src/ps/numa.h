#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/status.h"
#include "ps/placement.h"

struct hwloc_bitmap_s;
struct hwloc_topology;

namespace ffdl::ps {

// Whether a list like "0-1,4" names more than one NUMA node.
bool names_several_nodes(std::string_view list);
// Whether more than one NUMA node of this machine has processors. Costs one small file, where a
// topology costs milliseconds.
bool has_several_nodes();

// The NUMA nodes of a machine, and binding to them.
// Threads: const methods from any. Owns: hwloc's topology.
class NumaTopology {
 public:
  // Of this machine, within its cgroup and the processors that the calling thread may use.
  static Result<NumaTopology> load();
  // As hwloc describes one ("node:2 core:4 pu:2"), within the processors `usable` ("0-3"; empty:
  // all).
  static Result<NumaTopology> synthetic(const std::string& description,
                                        const std::string& usable = "");

  const std::vector<NumaNode>& nodes() const { return nodes_; }

  // Pages that come to be there are taken from the node, while it has some.
  Status bind_memory(const NodeMemory& memory) const;
  // The calling thread runs on the usable cores of the node only.
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
  std::vector<NumaNode> nodes_;  // by number
};

// The node of the page at each address, -1 where the kernel does not tell.
std::vector<int> nodes_of_pages(std::span<void* const> addresses);
// Whether the kernel was told where the page at this address shall come from.
bool has_memory_policy(void* address);

}  // namespace ffdl::ps
