#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/device_side.h"
#include "comm/leaf_tree.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::comm {

// What one rank has added so far while the values of its leaves come one by one: the values of the
// largest subtrees, from left to right. Those of float16 and bfloat16 leaves are float32. Beside it
// what else is done with such values, on the side that they lie on: in the host's memory, or a
// GPU's.
// Threads: one at a time.
// Owns: the values, also the memory of those that were joined, until it is destroyed.
// Errors: those of Gpu; in the host's memory nothing fails.
class RankValues {
 public:
  virtual ~RankValues() = default;

  virtual DType type() const = 0;
  virtual const std::vector<Subtree>& nodes() const = 0;
  // Has zeros behind its elements, as many as were asked for when this was made.
  virtual std::byte* value(size_t node) const = 0;

  // The leaf that follows the last one, of a tree over `leaves`.
  virtual Status add(uint64_t leaf, uint64_t leaves, std::span<const Buffer> value) = 0;
  virtual void clear() = 0;

  // Memory of that side, with anything in it.
  virtual Result<base::SideMemory> allocate(uint64_t bytes) = 0;
  // out = the values of nodes, which are together all of the tree over `leaves`, reduced along it.
  // What `inputs` name may be changed.
  virtual Status reduce(std::span<std::byte* const> inputs, std::span<const Subtree> nodes,
                        uint64_t leaves, std::byte* out, uint64_t count) = 0;
  // out = piece / divisor, if there is one. `out` is the same memory where it is of type(); `piece`
  // may be changed.
  virtual Status settle(const Buffer& piece, std::optional<double> divisor, const Buffer& out) = 0;
};

}  // namespace ffdl::comm
