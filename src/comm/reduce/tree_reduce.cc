#include "comm/reduce/tree_reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/half_kernels.h"
#include "base/limits.h"
#include "comm/reduce/combine_kernels.h"

namespace ffdl::comm {
namespace {

// A block of each level stays in the first-level cache beside the inputs.
constexpr uint64_t kBlock = 512;
static_assert(base::kMicroBatchesMax >= base::kRanksMax);
constexpr auto kLevelsMax = static_cast<size_t>(std::bit_width(base::kMicroBatchesMax)) + 1;

// Divides all elements. If the inverse is exact it multiplies: the product has the quotient's bits,
// in a fraction of the time.
template <class T>
void divide_all(const T* from, T* into, uint64_t count, T divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    const T inverse = 1 / divisor;
    int exponent = 0;
    if (std::frexp(divisor, &exponent) == T{0.5} && std::isnormal(inverse)) {
      std::transform(from, from + count, into, [=](T value) { return value * inverse; });
      return;
    }
  }
  std::transform(from, from + count, into, [=](T value) { return value / divisor; });
}

// Holds the values of all leaves of a tree, read from left to right.
class LeafInputs {
 public:
  explicit LeafInputs(std::span<const std::byte* const> values) : values_(values) {}

  uint64_t leaves() const { return values_.size(); }
  void restart() {}
  // Returns whether the next value is that of a node of this width.
  bool has(uint64_t width) const { return width == 1; }
  const std::byte* take(uint64_t first) { return values_[first]; }

 private:
  const std::span<const std::byte* const> values_;
};

// Holds the values of nodes that together are all of a tree.
class NodeInputs {
 public:
  NodeInputs(std::span<const std::byte* const> values, std::span<const Subtree> nodes,
             uint64_t leaves)
      : values_(values), nodes_(nodes), leaves_(leaves) {}

  uint64_t leaves() const { return leaves_; }
  void restart() { next_ = 0; }
  bool has(uint64_t width) const { return width <= nodes_[next_].width; }
  const std::byte* take(uint64_t) { return values_[next_++]; }

 private:
  const std::span<const std::byte* const> values_;
  const std::span<const Subtree> nodes_;
  const uint64_t leaves_;
  size_t next_ = 0;
};

// Converts elements of type T to type Wide, in which they are reduced, and back.
template <class T, class Wide>
struct Plain {
  using Element = T;
  using Accumulator = Wide;
  static void widen(const T* from, Wide* to, uint64_t count) { std::copy_n(from, count, to); }
  static void narrow(const Wide* from, T* to, uint64_t count) {
    std::transform(from, from + count, to, [](Wide value) { return static_cast<T>(value); });
  }
};

template <DType type>
struct Half {
  using Element = uint16_t;
  using Accumulator = float;
  static void widen(const uint16_t* from, float* to, uint64_t count) {
    base::widen(type, from, to, count);
  }
  static void narrow(const float* from, uint16_t* to, uint64_t count) {
    base::narrow(type, from, to, count);
  }
};

template <class Format, class Inputs>
class Tree {
 public:
  using Element = typename Format::Element;
  using Accumulator = typename Format::Accumulator;

  Tree(ReduceOp op, const Inputs& inputs) : op_(op), inputs_(inputs) {}

  void reduce(std::byte* out, uint64_t count) {
    auto* const elements = reinterpret_cast<Element*>(out);
    for (uint64_t begin = 0; begin < count; begin += kBlock) {
      begin_ = begin;
      count_ = std::min(kBlock, count - begin);
      inputs_.restart();
      Accumulator* into = levels_[0];
      if constexpr (std::is_same_v<Element, Accumulator>) into = elements + begin;
      store(node(0, std::bit_ceil(inputs_.leaves()), 0, into), into, elements + begin);
    }
  }

 private:
  // Returns the value of the node over leaves [first, first + width). It is in `into`, in
  // `levels_[level]` or in the input itself. `into` may be an input: it is written last.
  const Accumulator* node(uint64_t first, uint64_t width, size_t level, Accumulator* into) {
    if (inputs_.has(width)) return input(inputs_.take(first), level);
    const uint64_t half = width / 2;
    if (first + half >= inputs_.leaves()) return node(first, half, level, into);
    const Accumulator* const left = node(first, half, level, levels_[level]);
    const Accumulator* const right = node(first + half, half, level + 1, levels_[level + 1]);
    combine(op_, left, right, into, count_);
    return into;
  }

  const Accumulator* input(const std::byte* place, size_t level) {
    const auto* const elements = reinterpret_cast<const Element*>(place) + begin_;
    if constexpr (std::is_same_v<Element, Accumulator>) {
      return elements;
    } else {
      Format::widen(elements, levels_[level], count_);
      return levels_[level];
    }
  }

  // Stores the root, and divides in `into` before if necessary.
  void store(const Accumulator* root, Accumulator* into, Element* to) {
    if (op_ == ReduceOp::kMean && inputs_.leaves() > 1) {
      divide_all(root, into, count_, static_cast<Accumulator>(inputs_.leaves()));
      root = into;
    }
    if constexpr (std::is_same_v<Element, Accumulator>) {
      if (root != to) std::memmove(to, root, count_ * sizeof(Element));
    } else {
      Format::narrow(root, to, count_);
    }
  }

  const ReduceOp op_;
  Inputs inputs_;
  uint64_t begin_ = 0;  // of the block, in elements
  uint64_t count_ = 0;  // of elements in it
  alignas(64) Accumulator levels_[kLevelsMax][kBlock];
};

template <class Inputs>
void reduce(ReduceOp op, DType type, const Inputs& inputs, std::byte* out, uint64_t count) {
  switch (type) {
    case DType::kInt8:
      return Tree<Plain<int8_t, int64_t>, Inputs>(op, inputs).reduce(out, count);
    case DType::kInt16:
      return Tree<Plain<int16_t, int64_t>, Inputs>(op, inputs).reduce(out, count);
    case DType::kInt32:
      return Tree<Plain<int32_t, int64_t>, Inputs>(op, inputs).reduce(out, count);
    case DType::kInt64:
      return Tree<Plain<int64_t, int64_t>, Inputs>(op, inputs).reduce(out, count);
    case DType::kFloat16:
      return Tree<Half<DType::kFloat16>, Inputs>(op, inputs).reduce(out, count);
    case DType::kBFloat16:
      return Tree<Half<DType::kBFloat16>, Inputs>(op, inputs).reduce(out, count);
    case DType::kFloat32:
      return Tree<Plain<float, float>, Inputs>(op, inputs).reduce(out, count);
    case DType::kFloat64:
      return Tree<Plain<double, double>, Inputs>(op, inputs).reduce(out, count);
  }
}

}  // namespace

void tree_reduce(ReduceOp op, DType type, std::span<const std::byte* const> inputs, std::byte* out,
                 uint64_t count) {
  FFDL_CHECK(!inputs.empty() && inputs.size() <= base::kRanksMax, "a world has 1 to so many ranks");
  reduce(op, type, LeafInputs(inputs), out, count);
}

void tree_reduce(ReduceOp op, DType type, std::span<const std::byte* const> inputs,
                 std::span<const Subtree> nodes, uint64_t leaves, std::byte* out, uint64_t count) {
  FFDL_CHECK(!nodes.empty() && inputs.size() == nodes.size(), "each node has a value");
  FFDL_CHECK(nodes.size() <= leaves && leaves <= base::kMicroBatchesMax,
             "a tree of so many leaves");
  reduce(op, type, NodeInputs(inputs, nodes, leaves), out, count);
}

void divide(const Buffer& elements, double divisor) {
  const auto each = [&]<class T>(T* values) {
    divide_all(values, values, elements.count, static_cast<T>(divisor));
  };
  FFDL_CHECK(elements.dtype == DType::kFloat32 || elements.dtype == DType::kFloat64,
             "sums of 16 bits are float32, and integers have no mean");
  if (elements.dtype == DType::kFloat64) return each(static_cast<double*>(elements.data));
  each(static_cast<float*>(elements.data));
}

}  // namespace ffdl::comm
