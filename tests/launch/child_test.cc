#include "launch/child.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::launch {
namespace {

std::string read_all(int fd) {
  std::string all;
  char bytes[4096];
  for (ssize_t n = 0; (n = ::read(fd, bytes, sizeof bytes)) > 0;) {
    all.append(bytes, static_cast<size_t>(n));
  }
  return all;
}

int wait_for(const Child& child) {
  pollfd ended = {child.exit.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 60'000), 1);
  int state = 0;
  EXPECT_EQ(::waitpid(child.process, &state, 0), child.process);
  return state;
}

TEST(Child, RunsAProgramWithItsEnvironmentAndFolder) {
  const TempFolder folder;
  ::setenv("FFDL_TEST_KEPT", "kept", 1);
  ::setenv("FFDL_TEST_REPLACED", "old", 1);
  ASSERT_OK_AND_ASSIGN(
      const Child child,
      start_child({.name = "w",
                   .argv = {"sh", "-c",
                            "pwd; echo $FFDL_TEST_KEPT $FFDL_TEST_REPLACED $FFDL_TEST_ADDED; cat; "
                            "echo problem >&2; exit 7"},
                   .environment = {"FFDL_TEST_REPLACED=new", "FFDL_TEST_ADDED=a=b"},
                   .folder = folder.path()}));
  EXPECT_EQ(read_all(child.out.get()), folder.path() + "\nkept new a=b\n");
  EXPECT_EQ(read_all(child.errors.get()), "problem\n");
  EXPECT_EQ(WEXITSTATUS(wait_for(child)), 7);
}

TEST(Child, WritesToItsLogAfterWhatIsThere) {
  const TempFolder folder;
  const std::string log = folder.write("log", "before\n");
  ASSERT_OK_AND_ASSIGN(
      const Child child,
      start_child({.name = "w", .argv = {"sh", "-c", "echo a; echo b >&2"}, .log_file = log}));
  EXPECT_FALSE(child.out.valid());
  wait_for(child);
  std::ifstream file(log);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "before\na\nb\n");
}

// Models root that runs a job whose --log-dir another user created first.
TEST(Child, DoesNotWriteThroughALinkInItsLogFolder) {
  const TempFolder folder;
  const std::string victim = folder.write("victim", "precious");
  const std::string log = folder.file("worker-0.log");
  std::filesystem::create_symlink(victim, log);
  EXPECT_FAILS(start_child({.name = "w", .argv = {"echo", "torn"}, .log_file = log}),
               StatusCode::kInvalidArgument, "it is a symbolic link");
  std::filesystem::remove(log);
  std::filesystem::create_hard_link(victim, log);
  EXPECT_FAILS(start_child({.name = "w", .argv = {"echo", "torn"}, .log_file = log}),
               StatusCode::kInvalidArgument, "it has 2 hard links");
  std::ifstream file(victim);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "precious");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
}

// The child's signals are reset, whatever the thread that starts it has blocked or ignored.
TEST(Child, HasAGroupAndSignalsOfItsOwn) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const auto old_pipe = ::signal(SIGPIPE, SIG_IGN);
  const auto started = start_child(
      {.name = "w",
       .argv = {"sh", "-c", "ps -o pgid= -p $$; exec grep -E 'SigBlk|SigIgn' /proc/self/status"}});
  ::signal(SIGPIPE, old_pipe);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_OK(started);
  const std::string text = read_all(started->out.get());
  EXPECT_EQ(std::stoi(text), started->process) << text;
  EXPECT_NE(text.find("SigBlk:\t0000000000000000"), std::string::npos) << text;
  const size_t ignored = text.find("SigIgn:\t");
  ASSERT_NE(ignored, std::string::npos) << text;
  EXPECT_EQ(std::stoull(text.substr(ignored + 8), nullptr, 16) & (1ULL << (SIGPIPE - 1)), 0U);
  wait_for(*started);
}

TEST(Child, SaysWhyItCannotStart) {
  const TempFolder folder;
  EXPECT_FAILS(start_child({.name = "w", .argv = {}}), StatusCode::kInvalidArgument, "no program");
  EXPECT_FAILS(start_child({.name = "w", .argv = {"no-such-program"}}), StatusCode::kNotFound,
               "start 'no-such-program' as 'w'");
  EXPECT_FAILS(start_child({.name = "w", .argv = {folder.path()}}), StatusCode::kInvalidArgument,
               "check that it is a program");
  EXPECT_FAILS(start_child({.name = "w", .argv = {"true"}, .folder = folder.file("absent")}),
               StatusCode::kNotFound, "folders");
  EXPECT_FAILS(start_child({.name = "w", .argv = {"true"}, .log_file = folder.file("absent/log")}),
               StatusCode::kNotFound, "start 'true' as 'w': use the folder '");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
}

}  // namespace
}  // namespace ffdl::launch
