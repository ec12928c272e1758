#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ffdl/ps/parameter_server.h"
#include "ps/segment/numa.h"
#include "shm/huge_pages.h"

namespace ffdl::ps {

// Binds each shard of one server to a NUMA node, or notes why none is bound. If the system refuses,
// training continues unbound, and the note contains the reason.
// Threads: bind_this_thread() and note() from any; bind_memory() before them.
class NodeBinding {
 public:
  // Decides for a new server on this machine.
  static NodeBinding decide(bool bind, int shards);
  // Decides for a given topology.
  static NodeBinding on(NumaTopology topology, int shards);
  // Decides for the successor of a dead server: its threads follow the pages, if these were bound.
  static NodeBinding follow(const Region& region);

  NodeBinding(NumaTopology topology, std::vector<int> shard_nodes, std::string note)
      : topology_(std::move(topology)),
        shard_nodes_(std::move(shard_nodes)),
        note_(std::move(note)) {}

  // Returns false if there is nothing to bind; the other calls then do nothing.
  bool any() const { return !shard_nodes_.empty(); }
  // Binds the memory of a region that has no pages yet.
  void bind_memory(const Region& region);
  // Binds the calling thread, that of shard k, to the shard's node. Returns true on success.
  bool bind_this_thread(int k) const;

  const std::vector<int>& shard_nodes() const { return shard_nodes_; }
  const std::string& note() const { return note_; }

 private:
  explicit NodeBinding(std::string note) : note_(std::move(note)) {}

  std::optional<NumaTopology> topology_;
  std::vector<int> shard_nodes_;
  std::string note_;
};

// Reports the placement of a region's memory that every process can observe. `huge` was read when
// the process mapped the segment.
MemoryPlacement observe_memory(const Region& region, const shm::HugePages& huge);

}  // namespace ffdl::ps
