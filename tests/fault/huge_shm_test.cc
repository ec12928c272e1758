// Tests a /dev/shm that grants huge pages: a server uses them, and reports their number. Mounts a
// tmpfs, which needs root.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "ffdl/ps/parameter_server.h"
#include "shm/huge_pages.h"
#include "support/fork_child.h"
#include "support/private_shm.h"

namespace ffdl {
namespace {

constexpr uint64_t kHugePage = 2 << 20;
constexpr int kNoPages = 78;  // the exit code of a child to which the kernel gives no huge pages

// Returns the bytes of huge pages that the kernel gives to a plain file in /dev/shm, as large as
// the server's segment. Memory that is full or fragmented has none.
uint64_t given_to_a_plain_file() {
  constexpr uint64_t kBytes = 6 * kHugePage;
  const int file = open("/dev/shm/plain", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (ftruncate(file, kBytes) != 0) return 0;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, kBytes, MADV_HUGEPAGE);
  std::memset(memory, 1, kBytes);
  std::ifstream smaps("/proc/self/smaps");
  const std::string text{std::istreambuf_iterator<char>(smaps), {}};
  const auto begin = reinterpret_cast<uint64_t>(memory);
  return shm::huge_mapped_bytes(text, begin, begin + kBytes);
}

// Runs in a child whose /dev/shm is mounted with `options`. Checks that a server of some 12 MB, and
// a process that views it, have at least `least` huge pages.
int try_server(const std::string& options, uint64_t least) {
  if (!testing::mount_private_shm(options.c_str())) return testing::kNotAllowed;
  auto server =
      ParameterServer::create({.name = "huge", .parameters = 1'000'000, .learners_max = 1});
  if (!server.ok()) return 1;
  auto view = ParameterServerView::open("huge", Time{});
  if (!view.ok()) return 1;
  for (const MemoryPlacement& memory : {(*server)->stats().memory, (*view)->stats().memory}) {
    std::printf("%s: %zu bytes; %s\n", options.c_str(), size_t{memory.huge_page_bytes},
                memory.huge_page_note.c_str());
    std::fflush(stdout);
    const bool right = least > 0 ? memory.huge_page_bytes >= least : memory.huge_page_bytes == 0;
    if (!right && given_to_a_plain_file() < least) return kNoPages;
    if (!right || memory.huge_page_bytes % kHugePage != 0) return 1;
  }
  return 0;
}

void expect_huge(const std::string& options, uint64_t least) {
  const pid_t child = testing::fork_child();
  if (child == 0) _exit(try_server(options, least));
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == testing::kNotAllowed) {
    GTEST_SKIP() << "mounting a /dev/shm needs root, a mount namespace and this option";
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoPages) {
    GTEST_SKIP() << "the kernel gives no huge page to a plain file either: memory is fragmented";
  }
  EXPECT_EQ(status, 0) << options;
}

// Asks only for as many pages as any machine has free that is not out of memory.
TEST(HugeSharedMemory, IsTakenByThoseWhoAdviseIt) {
  expect_huge("size=64m,huge=advise", kHugePage);
}

TEST(HugeSharedMemory, IsTakenWhereItIsForAll) {
  expect_huge("size=64m,huge=within_size", kHugePage);
}

TEST(HugeSharedMemory, IsNoneWhereItIsNotGranted) { expect_huge("size=64m,huge=never", 0); }

}  // namespace
}  // namespace ffdl
