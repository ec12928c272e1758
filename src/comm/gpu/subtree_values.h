#pragma once

#include "comm/reduce/rank_values.h"

namespace ffdl::comm {

// Holds values in a GPU's memory, where its default stream adds: only sums, of floating dtypes. The
// bits are those of SubtreeValues and tree_reduce(). No call waits.
class DeviceSubtreeValues final : public RankValues {
 public:
  // Leaves have `count` elements, values as many as `room`.
  DeviceSubtreeValues(base::ChosenGpu chosen, DType leaf_type, uint64_t count, uint64_t room);

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
  Status take_memory();
  void keep_memory_of_last();
  // Sets sum to the leaf, or adds the leaf to it, buffer after buffer.
  Status add_list(std::byte* sum, std::span<const Buffer> list, bool is_first);
  // Adds right to left.
  Status join(std::byte* left, std::byte* right, uint64_t count);

  const std::unique_ptr<base::DeviceSide> own_side_;  // null: another's
  const base::Gpu gpu_;
  const DType type_;
  const uint64_t count_;
  const uint64_t room_;
  std::vector<Subtree> nodes_;
  std::vector<base::SideMemory> values_;  // of the nodes
  std::vector<base::SideMemory> spare_;
};

}  // namespace ffdl::comm
