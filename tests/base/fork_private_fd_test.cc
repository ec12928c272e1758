#include "base/fork_private_fd.h"
#include "support/fork_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ffdl::base {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(ForkPrivateFd, ClosesWhatItOwns) {
  int number = -1;
  {
    ForkPrivateFd fd(open("/dev/null", O_RDONLY));
    ASSERT_TRUE(fd.valid());
    number = fd.get();
    ForkPrivateFd moved = std::move(fd);
    EXPECT_FALSE(fd.valid());  // NOLINT: moved from on purpose
    EXPECT_EQ(moved.get(), number);
  }
  EXPECT_FALSE(is_open(number));
}

TEST(ForkPrivateFd, WhatItReleasesStaysOpen) {
  int number = -1;
  {
    ForkPrivateFd fd(open("/dev/null", O_RDONLY));
    number = fd.release();
    EXPECT_FALSE(fd.valid());
    EXPECT_EQ(fd.release(), -1);
  }
  EXPECT_TRUE(is_open(number));
  close(number);
}

TEST(ForkPrivateFd, BadDescriptorIsNotValid) {
  EXPECT_FALSE(ForkPrivateFd(-1).valid());
  EXPECT_FALSE(ForkPrivateFd().valid());
}

TEST(ForkPrivateFd, IsClosedInAForkedChildAndOpenInTheParent) {
  ForkPrivateFd fd(open("/dev/null", O_RDONLY));
  const int number = fd.get();
  const pid_t child = testing::fork_child();
  if (child == 0) _exit(!fd.valid() && !is_open(number) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fd.valid() && is_open(number));
}

}  // namespace
}  // namespace ffdl::base
