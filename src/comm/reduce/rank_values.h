#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/device_side.h"
#include "comm/reduce/leaf_tree.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::comm {

// Holds the partial results of one rank while the values of its leaves arrive one by one. They are
// the values of the largest subtrees, from left to right. Those of float16 and bfloat16 leaves are
// float32. Also does the other work on such values, in the memory that has them: the host's or a
// GPU's.
// Threads: one at a time.
// Owns: the values, also the memory of joined ones, until it is destroyed.
// Errors: those of Gpu; in the host's memory nothing fails.
class RankValues {
 public:
  virtual ~RankValues() = default;

  virtual DType type() const = 0;
  virtual const std::vector<Subtree>& nodes() const = 0;
  // Returns memory with zeros behind its elements, as many as the constructor was asked for.
  virtual std::byte* value(size_t node) const = 0;

  // Adds the leaf that follows the last one, of a tree over `leaves`.
  virtual Status add(uint64_t leaf, uint64_t leaves, std::span<const Buffer> value) = 0;
  virtual void clear() = 0;

  // Returns memory of that side, with any contents.
  virtual Result<base::SideMemory> allocate(uint64_t bytes) = 0;
  // Sets `out` to the values of nodes, reduced along the tree over `leaves`. Together the nodes are
  // all of that tree. The memory of `inputs` may be changed.
  virtual Status reduce(std::span<std::byte* const> inputs, std::span<const Subtree> nodes,
                        uint64_t leaves, std::byte* out, uint64_t count) = 0;
  // Sets `out` to piece / divisor, or to the piece without a divisor. `out` is the same memory if
  // it is of type(); `piece` may be changed.
  virtual Status settle(const Buffer& piece, std::optional<double> divisor, const Buffer& out) = 0;
};

}  // namespace ffdl::comm
