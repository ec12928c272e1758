#include "comm/gpu/subtree_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "comm/reduce/subtree_values.h"
#include "support/elements.h"
#include "support/guarded_device.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

using testing::Elements;
using testing::GuardedMemory;

constexpr uint64_t kElements = 301;
constexpr uint64_t kElementsRoom = kElements + 5;
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

// Uses a device whose memory the processor cannot access.
class DeviceSubtrees : public ::testing::Test {
 protected:
  DeviceSubtreeValues values(DType type) {
    return DeviceSubtreeValues({nullptr, {&side_, 0}}, type, kElements, kElementsRoom);
  }
  // Returns the elements at that place, once the device has completed its work.
  template <class T>
  std::vector<T> look(const std::byte* memory, uint64_t count) {
    late_->wait();
    const auto* const there = static_cast<const T*>(GuardedMemory::reach(memory));
    return {there, there + count};
  }
  std::byte* put(const void* bytes, uint64_t count) {
    held_.push_back(std::make_unique<GuardedMemory>(count));
    std::memcpy(GuardedMemory::reach(held_.back()->data()), bytes, count);
    return held_.back()->data();
  }

  const std::shared_ptr<testing::LateStream> late_ = std::make_shared<testing::LateStream>();
  testing::GuardedDevice side_{late_};
  std::vector<std::unique_ptr<GuardedMemory>> held_;
};

// Returns numbers of very different magnitude, so that every order of addition has bits of its own.
Elements leaf_of(DType type, uint64_t leaf) {
  Elements values(type, kElements);
  for (uint64_t i = 0; i < kElements; ++i) {
    const double sine = std::sin(static_cast<double>(i + 100 * leaf));
    values.set(i, sine * std::exp2(static_cast<double>(leaf % 7)));
  }
  return values;
}

TEST_F(DeviceSubtrees, HaveTheBitsOfTheHost) {
  constexpr uint64_t kLeaves = 11;
  for (const DType type : kTypes) {
    for (uint64_t begin = 0; begin < kLeaves; begin += 3) {
      DeviceSubtreeValues there = values(type);
      SubtreeValues here(ReduceOp::kSum, type, kElements, kElementsRoom);
      for (int step = 0; step < 2; ++step) {  // the second step reuses the memory of the first
        there.clear();
        here.clear();
        for (uint64_t leaf = begin; leaf < kLeaves; ++leaf) {
          Elements value = leaf_of(type, leaf);
          const Buffer whole = value.buffer();
          ASSERT_OK(here.add(leaf, kLeaves, {&whole, 1}));
          const uint64_t bytes = kElements * element_bytes(type);
          std::byte* const copy = put(whole.data, bytes);
          const Buffer parts[] = {{copy, 7, type},
                                  {copy + 7 * element_bytes(type), kElements - 7, type}};
          ASSERT_OK(there.add(leaf, kLeaves, parts));
        }
        ASSERT_EQ(there.nodes(), here.nodes());
        ASSERT_EQ(there.type(), here.type());
        const uint64_t bytes = kElementsRoom * element_bytes(here.type());
        for (size_t i = 0; i < here.nodes().size(); ++i) {
          EXPECT_EQ(look<std::byte>(there.value(i), bytes),
                    std::vector<std::byte>(here.value(i), here.value(i) + bytes));
        }
      }
    }
  }
}

// The nodes together are the tree over their leaves, at any places.
TEST_F(DeviceSubtrees, ReduceNodesAsTheTreeDoes) {
  for (uint64_t leaves = 1; leaves <= 13; ++leaves) {
    for (uint64_t cut = 0; cut <= leaves; ++cut) {
      std::vector<Subtree> nodes = subtrees_of(0, cut, leaves);
      for (const Subtree& node : subtrees_of(cut, leaves, leaves)) nodes.push_back(node);
      DeviceSubtreeValues there = values(DType::kFloat32);
      SubtreeValues here(ReduceOp::kSum, DType::kFloat32, kElements, kElementsRoom);
      std::vector<Elements> inputs;
      std::vector<std::byte*> places;
      std::vector<std::byte*> places_there;
      for (size_t i = 0; i < nodes.size(); ++i) inputs.push_back(leaf_of(DType::kFloat32, i));
      for (Elements& input : inputs) {
        places.push_back(static_cast<std::byte*>(input.buffer().data));
        places_there.push_back(put(places.back(), kElements * sizeof(float)));
      }
      std::vector<float> out(kElements);
      ASSERT_OK(
          here.reduce(places, nodes, leaves, reinterpret_cast<std::byte*>(out.data()), kElements));
      ASSERT_OK_AND_ASSIGN(const auto out_there, there.allocate(kElements * sizeof(float)));
      ASSERT_OK(there.reduce(places_there, nodes, leaves, out_there.get(), kElements));
      EXPECT_EQ(look<float>(out_there.get(), kElements), out) << leaves << " cut at " << cut;
    }
  }
}

TEST_F(DeviceSubtrees, SettleAsTheHostDoes) {
  for (const DType type : kTypes) {
    for (const std::optional<double> divisor : {std::optional<double>(), std::optional(7.0)}) {
      DeviceSubtreeValues there = values(type);
      SubtreeValues here(ReduceOp::kSum, type, kElements, kElementsRoom);
      Elements piece = leaf_of(here.type(), 3);
      const Buffer wide = piece.buffer();
      const Buffer wide_there = {put(wide.data, kElements * element_bytes(wide.dtype)), kElements,
                                 wide.dtype};
      const uint64_t bytes = kElements * element_bytes(type);
      std::vector<std::byte> narrow(bytes);
      ASSERT_OK_AND_ASSIGN(const auto narrow_there, there.allocate(bytes));
      const bool in_place = type == wide.dtype;
      const Buffer out = in_place ? wide : Buffer{narrow.data(), kElements, type};
      const Buffer out_there = in_place ? wide_there : Buffer{narrow_there.get(), kElements, type};
      ASSERT_OK(here.settle(wide, divisor, out));
      ASSERT_OK(there.settle(wide_there, divisor, out_there));
      const auto got = look<std::byte>(static_cast<std::byte*>(out_there.data), bytes);
      EXPECT_EQ(std::memcmp(got.data(), out.data, bytes), 0) << to_string(type);
    }
  }
}

}  // namespace
}  // namespace ffdl::comm
