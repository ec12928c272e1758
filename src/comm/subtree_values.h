#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/leaf_tree.h"
#include "ffdl/communicator.h"

namespace ffdl::comm {

// What one rank has added so far while the values of its leaves come one by one: the values of the
// largest subtrees, from left to right. Those of float16 and bfloat16 leaves are float32.
// Threads: one at a time.
// Owns: the values, also the memory of those that were joined, until it is destroyed.
class SubtreeValues {
 public:
  // Leaves have `count` elements. A value has zeros behind them, up to `room` elements.
  SubtreeValues(ReduceOp op, DType leaf_type, uint64_t count, uint64_t room);

  DType type() const { return type_; }
  const std::vector<Subtree>& nodes() const { return nodes_; }
  std::byte* value(size_t node) const { return values_[node].get(); }

  // The leaf that follows the last one, of a tree over `leaves`.
  void add(uint64_t leaf, uint64_t leaves, std::span<const Buffer> value);
  void clear();

 private:
  using Memory = std::unique_ptr<std::byte[]>;

  Memory take_memory();
  void keep_memory_of_last();
  // Elements [begin, begin + count) of a leaf, as elements of a value: where they are, or in
  // `block_`.
  const std::byte* look_at(std::span<const Buffer> leaf, uint64_t begin, uint64_t count);
  void load(std::span<const Buffer> leaf, uint64_t begin, uint64_t count, std::byte* to);

  const ReduceOp op_;
  const DType leaf_type_;
  const DType type_;
  const uint64_t count_;
  const uint64_t room_;
  std::vector<Subtree> nodes_;
  std::vector<Memory> values_;  // of the nodes
  std::vector<Memory> spare_;
  std::vector<std::byte> block_;  // of a leaf on its way, as elements of a value
  std::vector<uint16_t> narrow_;  // the same before it is widened
};

}  // namespace ffdl::comm
