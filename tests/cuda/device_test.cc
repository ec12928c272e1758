#include "base/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

#include "cuda/device_arrays.h"
#include "ffdl/data/sample_batch.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

TEST(Device, CopiesThereAndBack) {
  FFDL_SKIP_WITHOUT_GPU();
  ASSERT_OK_AND_ASSIGN(const auto facts, base::find_device());
  EXPECT_FALSE(facts.name.empty());
  EXPECT_GE(facts.major, 8);
  EXPECT_GT(facts.multiprocessors, 0U);
  EXPECT_GT(facts.memory_bytes, 0U);
  EXPECT_GE(facts.driver_version, 12080);
  std::vector<int> values = {3, 1, 4, 1, 5};
  const uint64_t bytes = values.size() * sizeof(int);
  ASSERT_OK_AND_ASSIGN(const auto memory, testing::on_device(values.data(), bytes));
  std::vector<int> back(values.size());
  ASSERT_OK(testing::to_host(back.data(), memory.get(), bytes));
  EXPECT_EQ(back, values);
  EXPECT_FAILS(base::allocate_on_device(uint64_t{1} << 50), StatusCode::kExhausted,
               "the GPU's memory is full");
}

TEST(Device, MemoryForSamplesIsPinned) {
  FFDL_SKIP_WITHOUT_GPU();
  PinnedMemory memory;
  const std::span<std::byte> given = memory.allocate(uint64_t{16} << 20);
  EXPECT_EQ(memory.not_pinned(), "");
  EXPECT_EQ(memory.pinned_bytes(), given.size());
  EXPECT_FALSE(base::pin_pages(given.data(), given.size()).ok());  // it is pinned already
  std::memset(given.data(), 7, given.size());
  ASSERT_OK_AND_ASSIGN(const auto on_device, testing::on_device(given.data(), given.size()));
  std::vector<std::byte> back(given.size());
  ASSERT_OK(testing::to_host(back.data(), on_device.get(), given.size()));
  EXPECT_EQ(std::memcmp(back.data(), given.data(), given.size()), 0);
  memory.give_back(given);
  EXPECT_EQ(memory.pinned_bytes(), 0U);
}

TEST(Device, AStreamFollowsTheDefaultStreamAndTellsWhenItIsDone) {
  FFDL_SKIP_WITHOUT_GPU();
  ASSERT_OK_AND_ASSIGN(const int device, base::device_in_use());
  ASSERT_OK(base::use_device(device));
  ASSERT_OK_AND_ASSIGN(const bool is_used, base::is_device_used(device));
  EXPECT_TRUE(is_used);
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  std::vector<char> values(kBytes, 7);
  ASSERT_OK_AND_ASSIGN(const auto from, base::allocate_on_device(kBytes));
  ASSERT_OK_AND_ASSIGN(const auto to, base::allocate_on_device(kBytes));
  ASSERT_OK_AND_ASSIGN(const bool on_device, base::is_device_memory(from.get()));
  ASSERT_OK_AND_ASSIGN(const bool on_host, base::is_device_memory(values.data()));
  EXPECT_TRUE(on_device);
  EXPECT_FALSE(on_host);
  ASSERT_OK_AND_ASSIGN(const auto stream, base::make_device_stream());
  ASSERT_OK(base::copy_on_device(from.get(), values.data(), kBytes, nullptr));
  ASSERT_OK(base::follow_default_stream(stream.get()));
  ASSERT_OK(base::copy_on_device(to.get(), from.get(), kBytes, stream.get()));
  while (true) {
    ASSERT_OK_AND_ASSIGN(const bool done, base::device_is_done(stream.get()));
    if (done) break;
  }
  std::vector<char> back(kBytes);
  ASSERT_OK(testing::to_host(back.data(), to.get(), kBytes));
  EXPECT_EQ(back, values);
  ASSERT_OK_AND_ASSIGN(const auto pinned, base::allocate_pinned(kBytes));
  ASSERT_OK_AND_ASSIGN(const bool pinned_on_device, base::is_device_memory(pinned.get()));
  EXPECT_FALSE(pinned_on_device);
  ASSERT_OK(base::copy_on_device(pinned.get(), to.get(), kBytes, stream.get()));
  ASSERT_OK(base::wait_for_device(stream.get()));
  EXPECT_EQ(std::memcmp(pinned.get(), values.data(), kBytes), 0);
}

TEST(Device, AStreamFollowsAnotherFromAndToPinnedPages) {
  FFDL_SKIP_WITHOUT_GPU();
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  constexpr uint64_t kPage = 4096;
  std::vector<char> memory(kBytes, 7);
  char* const pages = memory.data() + kPage - reinterpret_cast<uintptr_t>(memory.data()) % kPage;
  const uint64_t bytes = kBytes - kPage;
  ASSERT_OK_AND_ASSIGN(const auto on_device, base::allocate_on_device(bytes));
  ASSERT_OK_AND_ASSIGN(const auto first, base::make_device_stream());
  ASSERT_OK_AND_ASSIGN(const auto second, base::make_device_stream());
  for (int turn = 0; turn < 2; ++turn) {  // unpinned pages can be pinned again
    ASSERT_OK_AND_ASSIGN(const auto pinned, base::pin_pages(pages, bytes));
    ASSERT_FALSE(base::pin_pages(pages, bytes).ok());
    ASSERT_OK(base::copy_on_device(on_device.get(), pages, bytes, first.get()));
    ASSERT_OK(base::follow_stream(second.get(), first.get()));
    std::vector<char> back(bytes);
    ASSERT_OK(base::copy_on_device(back.data(), on_device.get(), bytes, second.get()));
    ASSERT_OK(base::wait_for_device(second.get()));
    EXPECT_EQ(back, std::vector<char>(bytes, char{7}));
  }
}

// Models the gradients of a model, which are passed on as one array where they are contiguous.
TEST(Device, CopiesAcrossAllocationsThatAreNeighbours) {
  FFDL_SKIP_WITHOUT_GPU();
  constexpr uint64_t kEach = uint64_t{4} << 20;
  std::vector<base::DeviceMemory> held;
  std::map<std::byte*, std::byte> found;  // the value that each allocation is filled with
  for (int i = 1; i <= 16; ++i) {
    const std::vector<std::byte> values(kEach, std::byte{static_cast<uint8_t>(i)});
    ASSERT_OK_AND_ASSIGN(auto memory, testing::on_device(values.data(), kEach));
    found[memory.get()] = values.front();
    held.push_back(std::move(memory));
  }
  const auto first = std::ranges::find_if(
      found, [&](const auto& one) { return found.contains(one.first + kEach); });
  if (first == found.end()) GTEST_SKIP() << "no two are neighbours";
  std::vector<std::byte> back(kEach);
  ASSERT_OK(testing::to_host(back.data(), first->first + kEach / 2, kEach));
  EXPECT_EQ(std::ranges::count(back, first->second), kEach / 2);
  EXPECT_EQ(std::ranges::count(back, std::next(first)->second), kEach / 2);
  ASSERT_OK_AND_ASSIGN(const auto other, base::allocate_on_device(kEach));
  ASSERT_OK(base::copy_on_device(other.get(), first->first + kEach / 4, kEach, nullptr));
  ASSERT_OK(testing::to_host(back.data(), other.get(), kEach));
  EXPECT_EQ(std::ranges::count(back, first->second), kEach / 4 * 3);
}

// Memory lives until its last mapping ends, whichever process allocated it.
TEST(Device, MemoryWithADescriptorIsMappedAgain) {
  FFDL_SKIP_WITHOUT_GPU();
  std::vector<int> values = {3, 1, 4, 1, 5};
  const uint64_t bytes = values.size() * sizeof(int);
  base::MappedDeviceMemory mapped;
  {
    ASSERT_OK_AND_ASSIGN(base::ShareableDeviceMemory made,
                         base::allocate_shareable_on_device(bytes));
    EXPECT_GE(made.bytes, bytes);
    EXPECT_TRUE(made.descriptor.valid());
    ASSERT_OK_AND_ASSIGN(const bool on_device, base::is_device_memory(made.memory.get()));
    EXPECT_TRUE(on_device);
    ASSERT_OK(base::copy_on_device(made.memory.get(), values.data(), bytes, nullptr));
    ASSERT_OK(base::wait_for_device(nullptr));
    ASSERT_OK_AND_ASSIGN(mapped, base::map_on_device(made.descriptor.get(), made.bytes));
    EXPECT_NE(mapped.get(), made.memory.get());
  }
  std::vector<int> back(values.size());
  ASSERT_OK(testing::to_host(back.data(), mapped.get(), bytes));
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace ffdl
