#include "ps/segment/numa.h"

#include <hwloc.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/errors.h"

namespace ffdl::ps {
namespace {

Status failed(std::string_view what, int error) {
  return base::make_error(
      StatusCode::kUnavailable, "{}: {}{}", what, base::errno_text(error),
      error == EPERM ? "; a container needs the right to it (docker run --cap-add SYS_NICE)" : "");
}

// Removes the cores in `set` from `cores` and returns their number.
int take_cores(std::vector<hwloc_obj_t>& cores, hwloc_const_cpuset_t set) {
  return static_cast<int>(std::erase_if(
      cores, [&](hwloc_obj_t core) { return hwloc_bitmap_intersects(core->cpuset, set) != 0; }));
}

std::vector<hwloc_obj_t> objects_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> objects;
  for (hwloc_obj_t next = nullptr;
       (next = hwloc_get_next_obj_by_type(topology, type, next)) != nullptr;) {
    objects.push_back(next);
  }
  return objects;
}

}  // namespace

bool names_several_nodes(std::string_view list) {
  return list.find_first_of(",-") != std::string_view::npos;
}

bool has_several_nodes() {
  std::ifstream file("/sys/devices/system/node/has_cpu");
  std::string list;
  return std::getline(file, list) && names_several_nodes(list);
}

void NumaTopology::Free::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}
void NumaTopology::Free::operator()(hwloc_bitmap_s* set) const { hwloc_bitmap_free(set); }

NumaTopology::NumaTopology(Topology topology, Bitmap usable)
    : topology_(std::move(topology)), usable_(std::move(usable)) {
  find_nodes();
}

Result<NumaTopology> NumaTopology::load() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return failed("find the NUMA nodes", errno);
  Topology owned(topology);
  if (hwloc_topology_load(topology) != 0) return failed("find the NUMA nodes", errno);
  // Variables of hwloc can make it describe another machine; it binds nothing then.
  if (hwloc_topology_is_thissystem(topology) == 0) {
    return failed("find the NUMA nodes: hwloc describes another machine", ENODEV);
  }
  Bitmap usable(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
  Bitmap mine(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, mine.get(), HWLOC_CPUBIND_THREAD) == 0) {
    hwloc_bitmap_and(usable.get(), usable.get(), mine.get());
  }
  return NumaTopology(std::move(owned), std::move(usable));
}

Result<NumaTopology> NumaTopology::synthetic(const std::string& description,
                                             const std::string& usable) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return failed("describe NUMA nodes", errno);
  Topology owned(topology);
  if (hwloc_topology_set_synthetic(topology, description.c_str()) != 0 ||
      hwloc_topology_load(topology) != 0) {
    return base::invalid_argument("describe NUMA nodes '{}': hwloc does not understand it",
                                  description);
  }
  Bitmap set(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
  if (!usable.empty()) {
    Bitmap given(hwloc_bitmap_alloc());
    hwloc_bitmap_list_sscanf(given.get(), usable.c_str());
    hwloc_bitmap_and(set.get(), set.get(), given.get());
  }
  return NumaTopology(std::move(owned), std::move(set));
}

// Assigns each core to the nearest node. Some memory has no processors of its own (large or fast
// memory beside them). hwloc shows it with the cores around it, or with all. Such a node is sorted
// after the node of these cores, so none is left for it, and no shard goes there.
void NumaTopology::find_nodes() {
  std::vector<hwloc_obj_t> cores = objects_of(topology_.get(), HWLOC_OBJ_CORE);
  if (cores.empty()) cores = objects_of(topology_.get(), HWLOC_OBJ_PU);
  std::erase_if(cores, [&](hwloc_obj_t core) {
    return hwloc_bitmap_intersects(core->cpuset, usable_.get()) == 0;
  });
  std::vector<hwloc_obj_t> nodes = objects_of(topology_.get(), HWLOC_OBJ_NUMANODE);
  std::sort(nodes.begin(), nodes.end(), [](hwloc_obj_t a, hwloc_obj_t b) {
    const auto key = [](hwloc_obj_t node) {
      return std::pair(hwloc_bitmap_weight(node->cpuset), node->os_index);
    };
    return key(a) < key(b);
  });
  for (const hwloc_obj_t node : nodes) {
    nodes_.push_back({static_cast<int>(node->os_index), take_cores(cores, node->cpuset)});
  }
  std::sort(nodes_.begin(), nodes_.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
}

Status NumaTopology::bind_memory(const NodeMemory& memory) const {
  const Bitmap node(hwloc_bitmap_alloc());
  hwloc_bitmap_only(node.get(), static_cast<unsigned>(memory.node));
  // Without HWLOC_MEMBIND_STRICT the node is preferred: a full node must not fail an allocation.
  if (hwloc_set_area_membind(topology_.get(), memory.bytes.data(), memory.bytes.size(), node.get(),
                             HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET) != 0) {
    return failed("bind memory", errno);
  }
  return {};
}

Status NumaTopology::bind_this_thread(int node) const {
  const hwloc_obj_t object =
      hwloc_get_numanode_obj_by_os_index(topology_.get(), static_cast<unsigned>(node));
  const Bitmap cores(hwloc_bitmap_dup(usable_.get()));
  if (object != nullptr) hwloc_bitmap_and(cores.get(), cores.get(), object->cpuset);
  if (object == nullptr || hwloc_bitmap_iszero(cores.get()) != 0) {
    return failed("bind a thread to a node without a core for it", ENODEV);
  }
  if (hwloc_set_cpubind(topology_.get(), cores.get(), HWLOC_CPUBIND_THREAD) != 0) {
    return failed("bind a thread", errno);
  }
  return {};
}

// Calls the kernel directly. hwloc would first load the whole topology in every process that calls
// this.
std::vector<int> nodes_of_pages(std::span<void* const> addresses) {
  std::vector<int> nodes(addresses.size(), -1);
  if (syscall(SYS_move_pages, 0, addresses.size(), addresses.data(), nullptr, nodes.data(), 0) !=
      0) {
    std::fill(nodes.begin(), nodes.end(), -1);
  }
  for (int& node : nodes) node = std::max(node, -1);  // a page's own error is negative
  return nodes;
}

bool has_memory_policy(void* address) {
  int mode = MPOL_DEFAULT;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0, address, MPOL_F_ADDR) == 0 &&
         mode != MPOL_DEFAULT;
}

}  // namespace ffdl::ps
