#include "comm/reduce/subtree_values.h"

#include <algorithm>

#include "base/half_kernels.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/reduce/tree_reduce.h"

namespace ffdl::comm {
namespace {

// Elements that pass through the first-level cache at once.
constexpr uint64_t kCombinedAtOnce = 2048;

}  // namespace

SubtreeValues::SubtreeValues(ReduceOp op, DType leaf_type, uint64_t count, uint64_t room)
    : op_(op),
      leaf_type_(leaf_type),
      type_(base::is_half(leaf_type) ? DType::kFloat32 : leaf_type),
      count_(count),
      room_(room),
      block_(kCombinedAtOnce * element_bytes(type_)),
      narrow_(base::is_half(leaf_type) ? kCombinedAtOnce : 0) {}

Status SubtreeValues::add(uint64_t leaf, uint64_t leaves, std::span<const Buffer> value) {
  std::vector<Subtree> parts = nodes_;
  parts.push_back({leaf, 1});
  const uint64_t joined = push(nodes_, parts.back(), leaves);
  if (joined == 0) values_.push_back(take_memory());
  parts.erase(parts.begin(), parts.end() - static_cast<std::ptrdiff_t>(joined + 1));
  const Subtree whole = nodes_.back();
  const uint64_t leaves_of_whole = std::min(whole.first + whole.width, leaves) - whole.first;

  const size_t into = nodes_.size() - 1;
  const uint64_t element = element_bytes(type_);
  std::vector<const std::byte*> places(joined + 1);
  for (uint64_t begin = 0; begin < count_; begin += kCombinedAtOnce) {
    const uint64_t count = std::min(kCombinedAtOnce, count_ - begin);
    std::byte* const to = values_[into].get() + begin * element;
    if (joined == 0) {
      load(value, begin, count, to);
      continue;
    }
    for (size_t i = 0; i < joined; ++i) places[i] = values_[into + i].get() + begin * element;
    places.back() = look_at(value, begin, count);
    tree_reduce(op_, type_, places, parts, leaves_of_whole, to, count);
  }
  while (values_.size() > nodes_.size()) keep_memory_of_last();
  return {};
}

void SubtreeValues::clear() {
  nodes_.clear();
  while (!values_.empty()) keep_memory_of_last();
}

Result<base::SideMemory> SubtreeValues::allocate(uint64_t bytes) {
  return base::SideMemory(std::make_unique<std::byte[]>(bytes).release(), [](std::byte* memory) {
    const std::unique_ptr<std::byte[]> freed(memory);
  });
}

Status SubtreeValues::reduce(std::span<std::byte* const> inputs, std::span<const Subtree> nodes,
                             uint64_t leaves, std::byte* out, uint64_t count) {
  const std::vector<const std::byte*> values(inputs.begin(), inputs.end());
  tree_reduce(op_, type_, values, nodes, leaves, out, count);
  return {};
}

Status SubtreeValues::settle(const Buffer& piece, std::optional<double> divisor,
                             const Buffer& out) {
  if (divisor) divide(piece, *divisor);
  if (out.dtype != type_) {
    base::narrow(out.dtype, static_cast<const float*>(piece.data), static_cast<uint16_t*>(out.data),
                 piece.count);
  }
  return {};
}

SubtreeValues::Memory SubtreeValues::take_memory() {
  if (spare_.empty()) return std::make_unique<std::byte[]>(room_ * element_bytes(type_));
  Memory memory = std::move(spare_.back());
  spare_.pop_back();
  return memory;
}

void SubtreeValues::keep_memory_of_last() {
  spare_.push_back(std::move(values_.back()));
  values_.pop_back();
}

const std::byte* SubtreeValues::look_at(std::span<const Buffer> leaf, uint64_t begin,
                                        uint64_t count) {
  const uint64_t element = element_bytes(leaf_type_);
  const std::byte* whole = nullptr;  // if it is one aligned run of memory
  for_each_piece(leaf, begin * element, count * element, [&](std::byte* piece, uint64_t size) {
    const bool aligned = reinterpret_cast<uintptr_t>(piece) % element == 0;
    if (size == count * element && aligned) whole = piece;
  });
  if (whole != nullptr && type_ == leaf_type_) return whole;
  load(leaf, begin, count, block_.data());
  return block_.data();
}

void SubtreeValues::load(std::span<const Buffer> leaf, uint64_t begin, uint64_t count,
                         std::byte* to) {
  const uint64_t element = element_bytes(leaf_type_);
  if (type_ == leaf_type_) return copy_from_list(leaf, begin * element, count * element, to);
  copy_from_list(leaf, begin * element, count * element,
                 reinterpret_cast<std::byte*>(narrow_.data()));
  base::widen(leaf_type_, narrow_.data(), reinterpret_cast<float*>(to), count);
}

}  // namespace ffdl::comm
