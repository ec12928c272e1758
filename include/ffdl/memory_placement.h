#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Where the pages of a parameter server's segment lie. docs/decisions/0005-placement.md says what
// is done about it and why.
namespace ffdl {

enum class Placement : uint32_t {
  kAuto,  // several NUMA nodes: each shard's memory and thread on one of them; else nothing to do
  kOff,   // the kernel's own choice
};

// What the kernel says about it to the process that asks. Placing is never an error: what the
// system refuses is in the notes, and training is only slower.
struct MemoryPlacement {
  std::vector<int> shard_nodes;  // NUMA node of each shard's weights; -1: the kernel does not tell
  bool bound = false;            // each shard's pages were asked for on its node
  int threads_bound = 0;         // server threads of this process that keep to their shard's node
  std::string note;              // why so
  uint64_t huge_page_bytes = 0;  // of the segment, when this process mapped it
  std::string huge_page_note;    // what the system grants
};

}  // namespace ffdl
