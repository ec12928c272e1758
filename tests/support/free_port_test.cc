#include "support/free_port.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "support/fork_child.h"

namespace ffdl::testing {
namespace {

// Returns whether another process takes the port.
bool another_takes(int port) {
  const pid_t child = fork_child();
  if (child == 0) _exit(take_port(port) ? 0 : 1);
  int outcome = -1;
  waitpid(child, &outcome, 0);
  return outcome == 0;
}

// A server of a test may be down for a while. Another test must not take its port meanwhile.
TEST(FreePort, BelongsToItsProcess) {
  const int port = free_port();
  EXPECT_LT(port, first_port_of_the_kernel());
  EXPECT_FALSE(take_port(port));
  EXPECT_FALSE(another_takes(port));
}

TEST(FreePort, IsFreeAgainAfterItsProcess) {
  int port = 0;
  do {
    port = first_port_of_the_kernel() / 2 + static_cast<int>(std::random_device{}() % 8192);
  } while (!another_takes(port));
  EXPECT_TRUE(take_port(port));
}

}  // namespace
}  // namespace ffdl::testing
