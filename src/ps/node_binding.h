#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ffdl/memory_placement.h"
#include "ps/numa.h"
#include "shm/huge_pages.h"

namespace ffdl::ps {

// Which NUMA node each shard of one server is bound to, or why none is. What the system refuses is
// no error: training goes on unbound, and the note says so. Threads: bind_this_thread() and note()
// from any; bind_memory() before.
class NodeBinding {
 public:
  // For a new server on this machine.
  static NodeBinding decide(Placement choice, int shards);
  // The same on a given topology.
  static NodeBinding on(NumaTopology topology, int shards);
  // For the successor of a dead server: its threads go to where the pages lie, if they were bound.
  static NodeBinding follow(const Region& region);

  NodeBinding(NumaTopology topology, std::vector<int> shard_nodes, std::string note)
      : topology_(std::move(topology)),
        shard_nodes_(std::move(shard_nodes)),
        note_(std::move(note)) {}

  // False: there is nothing to bind, and the other calls do nothing.
  bool any() const { return !shard_nodes_.empty(); }
  // The memory of a region none of whose pages is there yet.
  void bind_memory(const Region& region);
  // True when shard k's thread, which calls this, keeps to the shard's node from now on.
  bool bind_this_thread(int k) const;

  const std::vector<int>& shard_nodes() const { return shard_nodes_; }
  const std::string& note() const { return note_; }

 private:
  explicit NodeBinding(std::string note) : note_(std::move(note)) {}

  std::optional<NumaTopology> topology_;
  std::vector<int> shard_nodes_;
  std::string note_;
};

// What every process can see of a region's memory; `huge` was read when it mapped the segment.
MemoryPlacement observe_memory(const Region& region, const shm::HugePages& huge);

}  // namespace ffdl::ps
