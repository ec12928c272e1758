#include "shm/shared_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "support/status_matchers.h"

namespace ffdl {
namespace {

TEST(SharedMemory, IsZeroAndOnAPageOfItsOwn) {
  ASSERT_OK_AND_ASSIGN(const auto memory, SharedMemory::allocate(10'001));
  EXPECT_EQ(memory->bytes(), 10'001U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 4096, 0U);
  EXPECT_TRUE(std::all_of(memory->data(), memory->data() + memory->bytes(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(SharedMemory, NothingIsRefused) {
  EXPECT_FAILS(SharedMemory::allocate(0).status(), StatusCode::kInvalidArgument, "0 bytes");
}

TEST(SharedMemory, TooMuchIsAnError) {
  EXPECT_FAILS(SharedMemory::allocate(uint64_t{1} << 50).status(), StatusCode::kExhausted,
               "do not fit into memory");
  EXPECT_FAILS(SharedMemory::allocate(~uint64_t{0}).status(), StatusCode::kExhausted,
               "do not fit into memory");
}

// Models another process, with a mapping of its own.
TEST(SharedMemory, RenewedPagesAreOnlyOurs) {
  ASSERT_OK_AND_ASSIGN(const auto memory, SharedMemory::allocate(100'000));
  std::byte* const before = memory->data();
  ASSERT_OK_AND_ASSIGN(const shm::Segment other,
                       shm::Segment::open_of(getpid(), memory->segment().fd(),
                                             shm::SegmentKind::kMemory, shm::kMemoryLayout));
  std::byte* const theirs = other.data() + shm::kMemoryOffset;
  theirs[99'999] = std::byte{1};
  EXPECT_EQ(memory->data()[99'999], std::byte{1});

  ASSERT_OK(memory->segment().renew());
  EXPECT_EQ(memory->data(), before);
  EXPECT_NE(memory->segment().header().generation, other.header().generation);
  EXPECT_EQ(memory->data()[99'999], std::byte{0});
  theirs[0] = std::byte{2};
  memory->data()[1] = std::byte{3};
  EXPECT_EQ(memory->data()[0], std::byte{0});
  EXPECT_EQ(theirs[1], std::byte{0});
}

}  // namespace
}  // namespace ffdl
