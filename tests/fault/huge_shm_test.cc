// Tests a /dev/shm that grants huge pages: a server uses them, and reports their number. Mounts a
// tmpfs, which needs root.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "ffdl/ps/parameter_server.h"
#include "support/fork_child.h"
#include "support/private_shm.h"

namespace ffdl {
namespace {

constexpr uint64_t kHugePage = 2 << 20;

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
