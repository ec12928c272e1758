#pragma once

#include <cstdint>
#include <vector>

#include "ffdl/comm/communicator.h"

// Defines each collective as data: which elements of which input make which of which output. An
// input or output is some blocks of equal size.
namespace ffdl::comm {

inline constexpr int kReduced = -1;  // the source is the reduction of the same place of all inputs

struct Part {
  uint64_t out_block = 0;
  int source = kReduced;
  uint64_t in_block = 0;

  bool operator==(const Part&) const = default;
};

// Returns the number of blocks in the input and the output of `rank`.
uint64_t in_blocks(Collective kind, int root, int rank, int ranks);
uint64_t out_blocks(Collective kind, int root, int rank, int ranks);

// Returns the parts of the output of `rank`, by out_block: out_blocks() parts.
std::vector<Part> parts_of(Collective kind, int root, int rank, int ranks);

bool reduces(Collective kind);
bool has_root(Collective kind);
bool is_pair(Collective kind);  // send and recv: the other ranks take no part

}  // namespace ffdl::comm
