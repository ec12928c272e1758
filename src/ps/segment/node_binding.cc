#include "ps/segment/node_binding.h"

#include <algorithm>

#include "base/log.h"

namespace ffdl::ps {
namespace {

std::vector<int> nodes_of_shards(const Region& region) {
  std::vector<void*> pages;
  for (int k = 0; k < region.shards(); ++k) {
    pages.push_back(region.weights() + region.shard_begin(k) * kBlockFloats);
  }
  return nodes_of_pages(pages);
}

constexpr const char* kOneNode = "one NUMA node has processors";

}  // namespace

NodeBinding NodeBinding::decide(bool bind, int shards) {
  if (!bind) return NodeBinding("bind_to_nodes is off");
  if (!has_several_nodes()) return NodeBinding(kOneNode);
  Result<NumaTopology> topology = NumaTopology::load();
  if (!topology.ok()) return NodeBinding(std::string(topology.status().message()));
  return on(std::move(topology).value(), shards);
}

NodeBinding NodeBinding::on(NumaTopology topology, int shards) {
  std::vector<int> shard_nodes = place_shards(topology.nodes(), shards);
  if (shard_nodes.empty()) return NodeBinding("this process may use the cores of one NUMA node");
  return {std::move(topology), std::move(shard_nodes), "each shard is bound to its NUMA node"};
}

NodeBinding NodeBinding::follow(const Region& region) {
  if (!has_several_nodes()) return NodeBinding(kOneNode);
  if (!has_memory_policy(region.weights())) {
    return NodeBinding("the server that made the segment bound no memory");
  }
  Result<NumaTopology> topology = NumaTopology::load();
  if (!topology.ok()) return NodeBinding(std::string(topology.status().message()));
  return {std::move(topology).value(), nodes_of_shards(region),
          "threads run where the first server bound the memory"};
}

void NodeBinding::bind_memory(const Region& region) {
  if (!any()) return;
  for (const NodeMemory& memory : memory_of_nodes(region, shard_nodes_)) {
    Status bound = topology_->bind_memory(memory);
    if (bound.ok()) continue;
    // Binding a thread without its memory would only restrict its choice of cores.
    note_ = bound.message();
    shard_nodes_.clear();
    return;
  }
}

bool NodeBinding::bind_this_thread(int k) const {
  if (!any()) return false;
  const Status bound = topology_->bind_this_thread(shard_nodes_[static_cast<size_t>(k)]);
  if (!bound.ok()) base::log_warning("shard {} of a parameter server: {}", k, bound.message());
  return bound.ok();
}

MemoryPlacement observe_memory(const Region& region, const shm::HugePages& huge) {
  return {.shard_nodes = nodes_of_shards(region),
          .bound = has_memory_policy(region.weights()),
          .threads_bound = 0,
          .note = {},
          .huge_page_bytes = huge.bytes,
          .huge_page_note = huge.note};
}

}  // namespace ffdl::ps
