#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/reduce/rank_values.h"
#include "ffdl/comm/communicator.h"

namespace ffdl::comm {

// Holds values in the host's memory.
class SubtreeValues final : public RankValues {
 public:
  // Leaves have `count` elements, values as many as `room`.
  SubtreeValues(ReduceOp op, DType leaf_type, uint64_t count, uint64_t room);

  DType type() const override { return type_; }
  const std::vector<Subtree>& nodes() const override { return nodes_; }
  std::byte* value(size_t node) const override { return values_[node].get(); }
  Status add(uint64_t leaf, uint64_t leaves, std::span<const Buffer> value) override;
  void clear() override;
  Result<base::SideMemory> allocate(uint64_t bytes) override;
  Status reduce(std::span<std::byte* const> inputs, std::span<const Subtree> nodes, uint64_t leaves,
                std::byte* out, uint64_t count) override;
  Status settle(const Buffer& piece, std::optional<double> divisor, const Buffer& out) override;

 private:
  using Memory = std::unique_ptr<std::byte[]>;

  Memory take_memory();
  void keep_memory_of_last();
  // Returns elements [begin, begin + count) of a leaf, as elements of a value. They are in place or
  // in `block_`.
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
  std::vector<std::byte> block_;  // of a leaf, as elements of a value
  std::vector<uint16_t> narrow_;  // of a leaf, before it is widened
};

}  // namespace ffdl::comm
