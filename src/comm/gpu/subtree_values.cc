#include "comm/gpu/subtree_values.h"

#include <algorithm>
#include <utility>

#include "base/half_kernels.h"

namespace ffdl::comm {

DeviceSubtreeValues::DeviceSubtreeValues(base::ChosenGpu chosen, DType leaf_type, uint64_t count,
                                         uint64_t room)
    : own_side_(std::move(chosen.own_side)),
      gpu_(chosen.gpu),
      type_(base::is_half(leaf_type) ? DType::kFloat32 : leaf_type),
      count_(count),
      room_(room) {}

// Joins as push() defines: neighbours first, level by level. The new leaf is added to the last
// value that it joins, and that to the one before it.
Status DeviceSubtreeValues::add(uint64_t leaf, uint64_t leaves, std::span<const Buffer> value) {
  std::vector<Subtree> nodes = nodes_;
  const uint64_t joined = push(nodes, {leaf, 1}, leaves);
  if (joined == 0) FFDL_RETURN_IF_ERROR(take_memory());
  FFDL_RETURN_IF_ERROR(add_list(values_.back().get(), value, joined == 0));
  for (uint64_t i = 1; i < joined; ++i) {
    std::byte* const right = values_.back().get();
    FFDL_RETURN_IF_ERROR(join(values_[values_.size() - 2].get(), right, count_));
    keep_memory_of_last();
  }
  nodes_ = std::move(nodes);
  return {};
}

void DeviceSubtreeValues::clear() {
  nodes_.clear();
  while (!values_.empty()) keep_memory_of_last();
}

// Sets new memory to zeros. Nothing is ever written behind its elements.
Status DeviceSubtreeValues::take_memory() {
  if (!spare_.empty()) {
    values_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    return {};
  }
  FFDL_ASSIGN_OR_RETURN(base::SideMemory memory, allocate(room_ * element_bytes(type_)));
  FFDL_RETURN_IF_ERROR(gpu_.run(base::ScaleArray{{memory.get(), room_, type_}, 0}));
  values_.push_back(std::move(memory));
  return {};
}

void DeviceSubtreeValues::keep_memory_of_last() {
  spare_.push_back(std::move(values_.back()));
  values_.pop_back();
}

Status DeviceSubtreeValues::add_list(std::byte* sum, std::span<const Buffer> list, bool is_first) {
  for (const Buffer& buffer : list) {
    FFDL_RETURN_IF_ERROR(gpu_.run(base::AddArray{sum, buffer, 1, is_first}));
    sum += buffer.count * element_bytes(type_);
  }
  return {};
}

Status DeviceSubtreeValues::join(std::byte* left, std::byte* right, uint64_t count) {
  return gpu_.run(base::AddArray{left, {right, count, type_}});
}

Result<base::SideMemory> DeviceSubtreeValues::allocate(uint64_t bytes) {
  return gpu_.allocate(std::max<uint64_t>(bytes, 1));
}

Status DeviceSubtreeValues::reduce(std::span<std::byte* const> inputs,
                                   std::span<const Subtree> nodes, uint64_t leaves, std::byte* out,
                                   uint64_t count) {
  std::vector<Subtree> stack;
  std::vector<std::byte*> values;
  for (size_t i = 0; i < nodes.size(); ++i) {
    values.push_back(inputs[i]);
    for (uint64_t joined = push(stack, nodes[i], leaves); joined > 0; --joined) {
      std::byte* const right = values.back();
      values.pop_back();
      FFDL_RETURN_IF_ERROR(join(values.back(), right, count));
    }
  }
  return gpu_.copy(out, values.back(), count * element_bytes(type_));
}

Status DeviceSubtreeValues::settle(const Buffer& piece, std::optional<double> divisor,
                                   const Buffer& out) {
  if (!divisor && out.data == piece.data) return {};
  return gpu_.run(base::DivideArray{out, piece.data, divisor.value_or(1)});
}

}  // namespace ffdl::comm
