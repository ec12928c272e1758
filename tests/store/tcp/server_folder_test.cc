#include "store/tcp/server_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fork_child.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

TEST(ServerFolder, OneServesItAtATime) {
  const TempFolder folder;
  const std::string path = folder.file("made/here");
  ASSERT_OK_AND_ASSIGN(base::ForkPrivateFd lock, lock_server_folder(path));
  EXPECT_FAILS(lock_server_folder(path), StatusCode::kConflict,
               "process " + std::to_string(::getpid()) + " serves it");
  lock.close();
  EXPECT_OK(lock_server_folder(path));
}

TEST(ServerFolder, AForkedChildDoesNotServeItOn) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(base::ForkPrivateFd lock, lock_server_folder(folder.path()));
  int begun[2];
  ASSERT_EQ(pipe(begun), 0);
  const pid_t child = testing::fork_child();
  if (child == 0) {
    if (write(begun[1], "x", 1) == 1) pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(begun[0], &byte, 1), 1);
  lock.close();
  EXPECT_OK(lock_server_folder(folder.path()));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(begun[0]);
  close(begun[1]);
}

TEST(ServerFolder, RemembersWhereItIsServed) {
  const TempFolder folder;
  EXPECT_FAILS(read_server_address(folder.path()), StatusCode::kNotFound, "wait for it");
  const net::Address address{"::1", 7};
  ASSERT_OK(write_server_address(folder.path(), address));
  EXPECT_EQ(*read_server_address(folder.path()), address);
  folder.write("address", "somewhere");
  EXPECT_FAILS(read_server_address(folder.path()), StatusCode::kCorrupt, "somewhere");
}

}  // namespace
}  // namespace ffdl::store
